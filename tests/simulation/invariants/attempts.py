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
        if other is not container and other.attempt.key == container.attempt.key and other.has_worked:
            return f"{container.host.name} begins while {other.host.name} still works"
    return None
