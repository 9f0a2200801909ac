"""Attempts: never two at work at once, unless something went wrong."""

from typing import TYPE_CHECKING

from tests.simulation.invariants.table import invariant

if TYPE_CHECKING:
    from tests.simulation.containers import Container
    from tests.simulation.seen import Seen


@invariant("S5", "container began", "no two attempts of a job overlap unless a fault was injected")
def no_overlap(seen: "Seen", container: "Container") -> str | None:
    if seen.world.injector.fired or seen.redelivered or seen.redriven:
        return None
    for other in seen.world.containers.running.values():
        is_same_job = other is not container and other.attempt.key == container.attempt.key
        if is_same_job and other.has_worked and not other.is_cut_off:
            return f"{container.host.name} begins while {other.host.name} still works"
    return None


@invariant(
    "S5", "container over", "of the tasks that an attempt was given, by RunTasks whose answers were lost, one works"
)
def one_task_works(seen: "Seen", container: "Container") -> str | None:
    if not container.has_worked:
        return None
    given = next(each for each in seen.attempts.values() if container in each.containers).containers
    workers = [each.host.name for each in given if each.has_worked]
    return f"{' and '.join(workers)} worked" if len(workers) > 1 else None
