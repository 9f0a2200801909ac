"""How soon things happen, where nothing stands in their way."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.simulation.invariants.table import invariant

if TYPE_CHECKING:
    from tests.simulation.seen import Seen
    from tests.simulation.sightings import Sent, Token

_BACKOFF_S = 900 + 150  # the cap, and the clearance after a stop
_UNSEEN_S = 435 + 300  # the longest visibility, or a sweep
_SLACK_S = 180  # cold starts, a poll, a task's end told late
_DELETED_WITHIN_S = 60
_RECEIVED_WITHIN_S = 45
# What went wrong with the call that began an attempt began before it: the call takes effect first, and is then tried again.
_A_CALL = timedelta(seconds=60)
# A beat may be tried four times, 30 s and its margin each, with pauses; then it is skipped.
_BEATS_WITHIN_S = 300 + 4 * 60 + 30 + 15 + 60


@invariant(
    "L2",
    "execution started",
    "a crash is retried within its back-off, one that nobody saw within the visibility on top",
)
def retried_soon(seen: "Seen", token: "Token") -> str | None:
    before = [each for each in seen.attempts.values() if each.token[:2] == token[:2] and each.token < token]
    if not before or before[-1].ended_at is None or not seen.has_room(_stage(token)):
        return None
    ended_at = before[-1].ended_at
    fired = len(seen.world.injector.fired_since(before[-1].started_at - _A_CALL))
    if fired > 1 or token.key in seen.purged_keys or seen.redriven:
        return None
    allowed_s = _BACKOFF_S + _SLACK_S + (_UNSEEN_S if fired else 0)
    gap_s = (seen.now - ended_at).total_seconds()
    return (
        None
        if gap_s <= allowed_s
        else f"{token} began {gap_s:.0f} s after the attempt before had ended ({fired} faults)"
    )


@invariant("L2", "execution started", "a released job starts again when its back-off ends, if nothing fails meanwhile")
def back_off_is_kept(seen: "Seen", token: "Token") -> str | None:
    before = seen.attempts.get(token._replace(attempt=token.attempt - 1))
    retry_at = before and seen.retry_at.get(before.token)
    world = seen.world
    if before is None or retry_at is None or world.plan.mix.skew_s or not seen.has_room(_stage(token)):
        return None
    # Settle releases the message; events of the execution's end are for what it missed.
    failed = [
        fault
        for fault in world.injector.fired_since(before.started_at - _A_CALL)
        if fault.kind != "slow/6" and not fault.site.startswith("event:")
    ]
    if failed or seen.redelivered or seen.redriven or token.key in seen.purged_keys:
        return None
    late_s = (seen.now - retry_at).total_seconds()
    return f"{token} began {late_s:.0f} s after its back-off" if late_s > _RECEIVED_WITHIN_S else None


@invariant("L4", "message removed", "a job's message is deleted within seconds of its publication")
def deleted_soon(seen: "Seen", sent: "Sent") -> str | None:
    if sent.message.id in seen.redelivered or seen.redriven:
        return None
    for token, at in seen.published.items():
        if token.key == sent.key and sent.at <= seen.attempts[token].started_at:
            late_s = (seen.now - at).total_seconds()
            calm = not seen.world.injector.fired_since(at - timedelta(seconds=600))
            if (
                late_s > _DELETED_WITHIN_S
                and calm
                and not _is_news_late(seen, token)
                and sent.message.id == seen.rows[sent.key]["message_id"]["S"]
            ):
                return f"{sent.message.id} was deleted {late_s:.0f} s after {token} was published"
    return None


@invariant("L5", "beat", "one job's trouble delays no other job's heartbeat: each beats within its interval")
def beats_keep_on(seen: "Seen", beat: tuple[str, Any]) -> str | None:
    site, _ = beat
    before, seen.beats[site] = seen.beats.get(site), seen.now
    if before is None or seen.redriven:
        return None
    gap_s = (seen.now - before).total_seconds()
    return None if gap_s <= _BEATS_WITHIN_S else f"{site} had no beat for {gap_s:.0f} s"


def _is_news_late(seen: "Seen", token: "Token") -> bool:
    """Whether Step Functions heard late of the end of a task: of one that ECS called stopped, and that worked on, until long after it published."""
    faults = seen.world.injector.fired_since(seen.attempts[token].started_at)
    return any(fault.site.startswith("told:") for fault in faults)


def _stage(token: "Token") -> str:
    return token.key.partition("#")[0]
