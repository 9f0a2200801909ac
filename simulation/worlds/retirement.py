"""Stages that are retired, and brought back or taken out of the settings."""

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from simulation.worlds.plan import Act, Plan
from simulation.worlds.stages import CLEAN, MAIN, with_retired, without

if TYPE_CHECKING:
    from simulation.worlds.world import World

_QUEUES_GO_AFTER_S = 60.0  # CloudFormation deletes last
_FOR_S = (0.0, 60.0, 1_800.0, 50_000.0)
_WEIGHTS = (30, 30, 30, 10)


def with_retirement(rng: random.Random, plan: Plan) -> Plan:
    """The plan with a stage that is retired, mostly while jobs of it run or wait.

    Brought back only the first stage is: what would have followed into another is not sent later.
    """
    if plan.shape:
        return plan
    stage = rng.choice((MAIN, CLEAN)) if plan.clean_slots else MAIN
    begin_s = min(act.at_s for act in plan.acts)
    life_s = (120 + plan.jobs[0].work_s) * (2.5 if stage == CLEAN else 1)
    for_s = rng.choices(_FOR_S, _WEIGHTS)[0]
    is_taken_out = stage == CLEAN or not for_s or rng.random() < 0.5
    at_s = round(begin_s + life_s * 1.2 * rng.random(), 1)
    act = Act(at_s, "retire", work=int(is_taken_out), for_s=for_s, service=stage)
    return replace(plan, acts=tuple(sorted([*plan.acts, act], key=lambda each: each.at_s)))


def retire(world: "World", act: Act) -> None:
    """Deploy settings in which a stage is retired.

    `for_s` later it is brought back, or taken out (`work` 1). Zero seconds: nobody retires it
    first, and nothing checks what is left in it.
    """
    name = act.service
    if name not in world.mappings:  # a shrunk world without pipelines
        return
    world.seen.retired.add(name)
    if act.for_s:
        world.redeploy(stages=with_retired(world.settings.stages, name))
        world.timeline.after(
            act.for_s, lambda: _take_out(world, name) if act.work else _bring_back(world)
        )
    else:
        _take_out(world, name)


def _bring_back(world: "World") -> None:
    world.redeploy(stages=tuple(world.stages[each.name] for each in world.settings.stages))


def _take_out(world: "World", name: str) -> None:
    """Deploy settings without the stage, which deletes its queues with all that is in them."""
    world.redeploy(stages=without(world.settings.stages, name))
    world.mappings[name].switch(on=False)

    def delete_queues() -> None:
        queue = world.queues[name]
        world.seen.is_purging = True
        for message in list(queue.messages.values()):
            queue.remove(message)
        world.seen.is_purging = False
        for gone in (queue, world.dead_letter_queues[name]):
            del world.aws.sqs.queues[gone.url]

    world.timeline.after(_QUEUES_GO_AFTER_S, delete_queues)
