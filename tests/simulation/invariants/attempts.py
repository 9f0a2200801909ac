"""Attempts: never two at work at once, unless something went wrong, and none given up that lives."""

from typing import TYPE_CHECKING

from tests.simulation.invariants.table import invariant
from tests.simulation.sightings import Token

if TYPE_CHECKING:
    from tests.simulation.containers import Container
    from tests.simulation.seen import Seen
    from tests.simulation.telling import Row


# What never excuses an overlap: the product stops a task itself, and slowness is no failure.
_NO_EXCUSE = frozenset({"not stopped", "slow/6"})


@invariant("S5", "container began", "no two attempts of a job overlap unless a fault was injected that can hide one")
def no_overlap(seen: "Seen", container: "Container") -> str | None:
    if {fault.kind for _, fault in seen.world.injector.fired} - _NO_EXCUSE or seen.redelivered or seen.redriven:
        return None
    for other in seen.world.containers.running.values():
        is_same_job = other is not container and other.attempt.key == container.attempt.key
        if is_same_job and other.has_worked and not other.is_cut_off:
            return f"{container.host.name} begins while {other.host.name} still works"
    return None


@invariant("S5", "row written", "no attempt is given up while its execution runs and does not settle it")
def none_given_up_alive(seen: "Seen", written: "tuple[Row | None, Row]") -> str | None:
    before, row = written
    if before is None or before["state"]["S"] != "RUNNING" or row["state"]["S"] == "RUNNING":
        return None
    token = Token(row["key"]["S"], int(row["run"]["N"]), int(row["attempt"]["N"]))
    execution = seen.execution_of(token)
    if execution is None or not execution.is_running or token in seen.settling or seen.redriven:
        return None
    return f"{token} is {row['state']['S']}, and its execution runs"


@invariant(
    "S5", "container over", "of the tasks that an attempt was given, by RunTasks whose answers were lost, one works"
)
def one_task_works(seen: "Seen", container: "Container") -> str | None:
    if not container.has_worked:
        return None
    given = next(each for each in seen.attempts.values() if container in each.containers).containers
    workers = [each.host.name for each in given if each.has_worked]
    return f"{' and '.join(workers)} worked" if len(workers) > 1 else None
