"""Rows whose time to live has passed: DynamoDB deletes each item when it comes to it, or later.

The product's items live for 120 days, far longer than a world lasts, its messages and its tasks. So
months pass for one job alone.
"""

import random
from typing import TYPE_CHECKING

from longhaul.core.store.table import TTL
from simulation.worlds.plan import Act, Plan
from simulation.worlds.randomness import unit

if TYPE_CHECKING:
    from simulation.worlds.world import World

_GONE = 0.6  # of the items that are due


def expiries(rng: random.Random, plan: Plan) -> list[Act]:
    """Rows that outlive their time to live, and ids that are used once more after that."""
    job = rng.choice([job for job in plan.jobs if "." not in job.name])
    at_s = round(2 + 800 * rng.random() ** 2 + 2 * job.work_s, 1)
    again = Act(round(at_s + 600 * rng.random(), 1), "submit", job.name, rng.choice((0, 1, 3)))
    return [Act(at_s, "expire", job.name), again]


def expire(world: "World", act: Act) -> None:
    """Delete some items of a job for which nothing is left to do, or its arrivals at a join."""
    for key in world.keys_of(act.job):
        if not _is_over(world, key):
            continue
        for place, row in list(world.aws.dynamodb.tables[world.settings.leases_table].rows.items()):
            if world.plan.clean_slots:
                # Children may still ask for their parent's row. The set of a join's places lives
                # years longer than the outputs.
                is_due = f"#{key}@" in place[0] and place[1].startswith("place#")
            else:
                is_due = place[0] == key
            site = f"ttl/{place[0]}/{place[1]}/{act.at_s}"
            if is_due and TTL in (row.item or {}) and unit(world.plan.seed, site) < _GONE:
                world.seen.note_expired(key)
                world.aws.dynamodb.expire(world.settings.leases_table, place)


def _is_over(world: "World", key: str) -> bool:
    """Whether neither a message nor a delivery of one, nor an execution of the job is left."""
    if world.seen.live_by_key[key] or any(
        world.seen.started[each.arn].key == key and each.is_running
        for each in world.aws.stepfunctions.executions.values()
    ):
        return False
    return not any(
        world.seen.sent[id_].key == key
        for mapping in world.mappings.values()
        for ids in mapping.held
        for id_ in ids
    )
