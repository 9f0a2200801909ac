"""Runs one world."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from simulation.aws.platform.harness import installed
from simulation.worlds.injection import Site
from simulation.worlds.plan import Fault, Plan
from simulation.worlds.world import World


@dataclass(frozen=True)
class Violation:
    """An invariant that did not hold.

    Attributes:
        code: As in docs/internals/reliability.md, such as S8.
        text: What should hold, and what was seen instead.
        plan: Names every fault that fired by its place, so it replays the same world.
    """

    code: str
    text: str
    plan: Plan


@dataclass(frozen=True)
class Run:
    violation: Violation | None
    virtual_s: float
    faults: tuple[Fault, ...]  # those that fired


def run(
    plan: Plan, trace: Callable[[str], None] | None = None, sites: list[Site] | None = None
) -> Run:
    """Run a plan.

    Args:
        plan: The world.
        trace: Called with a line for each call that takes effect, and its time.
        sites: Collects every place where a fault could fire.

    Raises:
        Exception: a mistake of the simulation itself, with a note that holds the plan.
    """
    world = World(plan)
    world.injector.note_sites = sites
    if trace is not None:
        world.trace = world.injector.trace = lambda text: trace(f"{_clock(world)}  {text}")
    play(world)
    fired = tuple(
        dict.fromkeys(fault for _, fault in world.injector.fired if fault.kind != "outage")
    )
    violated = world.seen.violated
    violation = None
    if violated is not None:
        violation = Violation(violated.code, str(violated), replace(plan, faults=fired))
    return Run(violation, world.virtual_s, fired)


def play(world: World) -> None:
    """Run the world to its end, in the place of AWS for the product's code."""
    with installed(world):
        try:
            world.run()
        except Exception as error:
            error.add_note(f"in the world {world.plan.to_json()}")
            raise
        finally:
            world.timeline.close()


def _clock(world: World) -> str:
    ms = world.timeline.clock.ms
    return f"{ms // 3_600_000:3}:{ms // 60_000 % 60:02}:{ms // 1_000 % 60:02}.{ms % 1_000:03}"
