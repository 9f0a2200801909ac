"""How soon things happen when nothing delays them."""

from datetime import timedelta
from typing import Any

from simulation.seen.checks import invariant
from simulation.seen.record import Seen
from simulation.seen.sightings import Sent, Token

_BACKOFF_S = 900 + 150  # the cap, and the clearance after a stop
_UNSEEN_S = 435 + 300  # the longest visibility, or a sweep
_VOID_S = 1_800 + 300  # two looks at uploads that are gone, the second by a sweep
_SLACK_S = 180  # cold starts, a poll, a task's end noticed late
_DELETED_WITHIN_S = 60
_RECEIVED_WITHIN_S = 45
# A fault of the call that starts an attempt fires before its start is seen.
_A_CALL = timedelta(seconds=60)
# The start timeout, the wait between beats at that age, and a late beat.
_GIVEN_UP_WITHIN_S = 600 + 60 + 60
_OUTAGE = timedelta(seconds=1_000)
# A beat may be tried several times, 30 s and its margin each, with pauses that grow to 300 s.
_BEATS_WITHIN_S = 300 + 4 * 60 + 30 + 300 + 60


@invariant(
    "L2",
    "execution started",
    "a crash is retried within its back-off, and an unnoticed one within the visibility on top",
)
def retried_soon(seen: Seen, token: Token) -> str | None:
    before = [
        each
        for each in seen.attempts.of(token.key)
        if each.token.run == token.run and each.token < token
    ]
    if not before or before[-1].ended_at is None or not seen.has_room(token.stage):
        return None
    ended_at = before[-1].ended_at
    fired = len(seen.world.injector.fired_since(before[-1].started_at - _A_CALL))
    if fired > 1 or token.key in seen.purged_keys or seen.redriven or _is_out_for_long(seen):
        return None
    if seen.retired or token.key in seen.once_late:  # the sweeper misses the message, hours later
        return None
    allowed_s = _BACKOFF_S + _SLACK_S + (_UNSEEN_S if fired else 0)
    allowed_s += _VOID_S if before[-1].token in seen.voided else 0
    gap_s = (seen.now - ended_at).total_seconds()
    return (
        None
        if gap_s <= allowed_s
        else f"{token} began {gap_s:.0f} s after the attempt before had ended ({fired} faults)"
    )


@invariant(
    "L2",
    "execution started",
    "a released job starts again when its back-off ends, unless something fails meanwhile",
)
def back_off_is_kept(seen: Seen, token: Token) -> str | None:
    before = seen.attempts.get(token._replace(attempt=token.attempt - 1))
    retry_at = seen.retry_at.get(before.token) if before else None
    world = seen.world
    if (
        before is None
        or before.token in seen.voided  # its message was not held any more
        or retry_at is None
        or world.plan.mix.skew_s
        or seen.retired
        or not seen.has_room(token.stage)
    ):
        return None
    # Settle releases the message; the event of the execution's end only repairs what it missed.
    failed = [
        fault
        for fault in world.injector.fired_since(before.started_at - _A_CALL)
        if fault.kind != "slow/6" and not fault.site.startswith("event:")
    ]
    if failed or seen.redelivered or seen.redriven or token.key in seen.purged_keys:
        return None
    late_s = (seen.now - retry_at).total_seconds()
    return (
        f"{token} began {late_s:.0f} s after its back-off"
        if late_s > _RECEIVED_WITHIN_S + seen.launches_s
        else None
    )


@invariant(
    "L4",
    "message removed",
    "a job's message is deleted within seconds of its publication, if its receipt is known",
)
def deleted_soon(seen: Seen, sent: Sent) -> str | None:
    if sent.message.id in seen.redelivered or seen.redriven or seen.retired:
        return None
    if sent.key in seen.lost:  # what follows needs the request: it is tried until it is given up
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
                # A retry that was claimed from its row may end before its hidden message comes.
                and "receipt_handle" in seen.rows[sent.key]
            ):
                return f"{sent.message.id} was deleted {late_s:.0f} s after {token} was published"
    return None


@invariant(
    "L5",
    "beat",
    "one job's trouble delays no other job's heartbeat: each beats within its interval",
)
def beats_keep_on(seen: Seen, site: str, _event: Any) -> str | None:
    before, seen.beats[site] = seen.beats.get(site), seen.now
    if before is None or seen.redriven or _was_heartbeat_out(seen):
        return None
    gap_s = (seen.now - before).total_seconds()
    return None if gap_s <= _BEATS_WITHIN_S else f"{site} had no beat for {gap_s:.0f} s"


@invariant("L9", "beat", "a task that does not start is given up after start_timeout")
def given_up_in_time(seen: Seen, _site: str, event: Any) -> str | None:
    token = Token.in_event(event)
    row, world = seen.rows.get(token.key), seen.world
    if row is None or (row["run"]["N"], row["attempt"]["N"]) != (event["run"], event["attempt"]):
        return None
    started_at = seen.attempts[token].started_at
    waited_s = (seen.now - started_at).total_seconds()
    if "task_arn" in row or row["state"]["S"] != "RUNNING" or waited_s <= _GIVEN_UP_WITHIN_S:
        return None
    if world.injector.fired_since(started_at - _OUTAGE) or world.plan.mix.skew_s or seen.redriven:
        return None
    if _was_heartbeat_out(seen):
        return None
    return f"{token} has had no task for {waited_s:.0f} s"


def _was_heartbeat_out(seen: Seen) -> bool:
    return any(fault.site == "outage:heartbeat" for _, fault in seen.world.injector.fired)


def _is_news_late(seen: Seen, token: Token) -> bool:
    """Whether Step Functions noticed the task's end late, long after it published."""
    faults = seen.world.injector.fired_since(seen.attempts[token].started_at)
    return any(fault.site.startswith("told:") for fault in faults)


def _is_out_for_long(seen: Seen) -> bool:
    """Whether an outage lasts longer than what notices a crash."""
    return any(act.kind == "outage" and act.for_s > _UNSEEN_S for act in seen.world.plan.acts)
