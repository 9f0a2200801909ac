"""The way in: run a world by its seed or its plan."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.simulation import invariants  # noqa: F401 - fills the table
from tests.simulation.generation import plan_of
from tests.simulation.harness import installed
from tests.simulation.injection import Site
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


def run(plan: Plan, trace: Callable[[str], None] | None = None, sites: list[Site] | None = None) -> Run:
    """Run a plan. `trace` hears of each call that took effect, with its time; `sites` collects every place where a fault could come.

    Whatever is raised is a mistake of the simulation's own, and has a note with the plan.
    """
    world = World(plan)
    world.injector.note_sites = sites
    if trace is not None:
        world.trace = world.injector.trace = lambda text: trace(f"{_clock(world)}  {text}")
    with installed(world):
        try:
            world.run()
        except Exception as error:
            error.add_note(f"in the world {plan.to_json()}")
            raise
        finally:
            world.timeline.close()
    fired = tuple(dict.fromkeys(fault for _, fault in world.injector.fired if fault.kind != "outage"))
    violated = world.seen.violated
    violation = None
    if violated is not None:
        violation = Violation(violated.code, str(violated), replace(plan, faults=fired))
    return Run(violation, world.virtual_s, fired)


def _clock(world: World) -> str:
    ms = world.timeline.clock.ms
    return f"{ms // 3_600_000:3}:{ms // 60_000 % 60:02}:{ms // 1_000 % 60:02}.{ms % 1_000:03}"
