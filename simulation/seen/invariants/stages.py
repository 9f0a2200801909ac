"""Stages: each has its own slots, and no stage waits for another."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from simulation.seen.invariants.table import invariant

if TYPE_CHECKING:
    from simulation.seen.record import Seen
    from simulation.seen.sightings import Token
    from simulation.seen.trace import Row

_OUTAGE_S = 10_000  # longer than any outage
# Two sweeps, each of which raises a limit that has been calm for a minute.
_LIMIT_RISES_WITHIN_S = 2 * 300 + 120
_STARTED_WITHIN_S = 45  # two cold starts, a poll, slow calls


@invariant(
    "S10",
    "slots written",
    "a stage's taken slots are those of its running jobs, and no more than it has",
)
def slots_are_those_that_run(seen: "Seen", written: tuple["Row", "Row"]) -> str | None:
    before, counter = written
    stage = counter["key"]["S"].partition("#")[2]
    taken = _taken(counter)
    running = len(seen.running[stage])
    limit = _slots_of(counter, seen.world.stages[stage].slots)
    # With fewer slots, nothing is stopped.
    if taken != running or taken > max(limit, _taken(before)):
        return f"{taken} of {limit} slots of {stage} are taken, and {running} of its jobs run"
    return None


@invariant("S16", "slots written", "no job of a paused stage starts")
def nothing_starts_in_a_paused_stage(_: "Seen", written: tuple["Row", "Row"]) -> str | None:
    before, counter = written
    if "paused_at" in before and _taken(counter) > _taken(before):
        return f"a slot of {counter['key']['S']} was taken"
    return None


def _taken(counter: "Row") -> int:
    return int(counter.get("running", {"N": "0"})["N"])


def _slots_of(counter: "Row", deployed: int) -> int:
    """The operator's number, or the deployed."""
    return int(counter.get("operator_slots", {"N": deployed})["N"])


@invariant("L9", "execution ended", "a limit that a refusal has lowered rises again, step by step")
@invariant("L9", "the end", "a limit that a refusal has lowered rises again, step by step")
def limit_recovers(seen: "Seen", _: object) -> str | None:
    world = seen.world
    if world.injector.fired_since(seen.since_s(_LIMIT_RISES_WITHIN_S + _OUTAGE_S)):
        return None
    rows = world.aws.dynamodb.tables[world.settings.leases_table].rows
    for stage in world.settings.stages:
        found = rows.get((f"slots#{stage.name}", "slots"))
        item = (found and found.item) or {}
        slots = _slots_of(item, stage.slots)
        if int(item.get("effective_limit", {"N": slots})["N"]) >= slots:
            continue
        changed_at = datetime.fromtimestamp(int(item["limit_changed_at"]["N"]) / 1000, UTC)
        still_s = (seen.now - changed_at).total_seconds()
        if still_s > _LIMIT_RISES_WITHIN_S + 2 * world.plan.mix.skew_s:
            limit = item["effective_limit"]["N"]
            return f"{stage.name} has had {limit} of {slots} slots for {still_s:.0f} s"
    return None


@invariant("S23", "execution started", "no job begins before the time that its request names")
def begins_at_its_time(seen: "Seen", token: "Token") -> str | None:
    early_s = (_begin(seen, token) - seen.now).total_seconds()
    # The dispatcher goes by its own clock, and says the wait in whole seconds.
    if early_s > seen.world.plan.mix.skew_s + 1:
        return f"{token} began {early_s:.0f} s before its time"
    return None


def _begin(seen: "Seen", token: "Token") -> datetime:
    """When the job may begin."""
    name = seen.names.get(token.key)
    start_s = seen.world.jobs[name].start_s if name in seen.world.jobs else 0.0
    return seen.began_at + timedelta(seconds=start_s)


@invariant(
    "L7",
    "execution started",
    "a job starts when it is sent, or at its own time, if its stage has room, whatever happens in"
    " other stages",
)
def starts_when_due(seen: "Seen", token: "Token") -> str | None:
    world = seen.world
    if (
        token.attempt != 1
        or world.plan.mix.skew_s
        or seen.was_narrowed  # a refused job may be redriven later
        or seen.was_retired
        or token.key in seen.expired
        or not seen.has_room(token.key.partition("#")[0])
    ):
        return None
    sent_at = min(
        each.at for each in seen.sent_by_key[token.key] if each.message.id not in seen.forged
    )
    troubled = world.injector.fired_since(sent_at - timedelta(seconds=_OUTAGE_S))
    if troubled or token.key in seen.purged_keys or token.key in seen.asked.cancels:
        return None
    waited_s = (seen.now - max(sent_at, _begin(seen, token))).total_seconds()
    return (
        f"{token} began {waited_s:.0f} s after it was due"
        if waited_s > _STARTED_WITHIN_S + seen.launches_s
        else None
    )


@invariant("S25", "role passed", "no job gets the role of another stage")
def role_of_its_stage(seen: "Seen", passed: tuple[str, str]) -> str | None:
    del seen
    role_of, stage = passed
    return None if role_of == stage else f"a job of {stage} gets the role of {role_of}"
