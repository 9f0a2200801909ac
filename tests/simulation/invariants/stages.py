"""Stages: each has its own slots, and none waits for another."""

from datetime import timedelta
from typing import TYPE_CHECKING

from tests.simulation.invariants.table import invariant

if TYPE_CHECKING:
    from tests.simulation.seen import Seen
    from tests.simulation.sightings import Token
    from tests.simulation.telling import Row

_OUTAGE_S = 1_000  # one that began so long ago is over
_STARTED_WITHIN_S = 45  # two cold starts, a poll, calls that are slow


@invariant("S10", "slots written", "of a stage's slots those are taken whose jobs run, and never more than there are")
def slots_are_those_that_run(seen: "Seen", counter: "Row") -> str | None:
    stage = counter["key"]["S"].partition("#")[2]
    taken = int(counter.get("running", {"N": "0"})["N"])
    running = sum(row["state"]["S"] == "RUNNING" for key, row in seen.rows.items() if key.startswith(f"{stage}#"))
    limit = seen.world.settings.stage(stage).slots
    if taken != running or taken > limit:
        return f"{taken} of {limit} slots of {stage} are taken, and {running} of its jobs run"
    return None


@invariant(
    "L7", "execution started", "where a stage has room, a job starts when it is sent, whatever becomes of other stages"
)
def starts_when_sent(seen: "Seen", token: "Token") -> str | None:
    world = seen.world
    if token.attempt != 1 or world.plan.mix.skew_s or not seen.has_room(token.key.partition("#")[0]):
        return None
    sent_at = min(each.at for each in seen.sent.values() if each.key == token.key)
    troubled = world.injector.fired_since(sent_at - timedelta(seconds=_OUTAGE_S))
    if troubled or token.key in seen.purged_keys or token.key in seen.cancelled_at:
        return None
    waited_s = (seen.now - sent_at).total_seconds()
    return f"{token} began {waited_s:.0f} s after it was sent" if waited_s > _STARTED_WITHIN_S else None
