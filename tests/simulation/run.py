"""The way in: run a world by its seed or its plan."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.simulation import invariants  # noqa: F401 - fills the table
from tests.simulation.generation import plan_of
from tests.simulation.harness import installed
from tests.simulation.plan import Fault, Plan
from tests.simulation.world import World


@dataclass(frozen=True)
class Violation:
    """`plan` has every fault that came by its place: it replays the same world without the mix."""

    code: str
    text: str
    plan: Plan


@dataclass(frozen=True)
class Run:
    violation: Violation | None
    virtual_s: float
    faults: tuple[Fault, ...]


def run_world(seed_or_plan: int | Plan) -> Violation | None:
    """Run one world to its end; None when every invariant held."""
    return run(seed_or_plan if isinstance(seed_or_plan, Plan) else plan_of(seed_or_plan)).violation


def run(plan: Plan, trace: Callable[[str], None] | None = None) -> Run:
    """Run a plan; `trace` hears of each call that took effect, with its time."""
    world = World(plan)
    if trace is not None:
        world.trace = lambda text: trace(f"{world.seen.now - world.seen.began_at} {text}")
    with installed(world):
        world.run()
    fired = tuple(dict.fromkeys(fault for _, fault in world.injector.fired if fault.kind != "outage"))
    violated = world.seen.violated
    violation = None
    if violated is not None:
        violation = Violation(violated.code, str(violated), replace(plan, faults=fired))
    return Run(violation, world.virtual_s, fired)
