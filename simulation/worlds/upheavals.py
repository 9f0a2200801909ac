"""What an operator or time itself does to a whole stack.

Stages are retired, and brought back or taken out of the settings. A newer version runs for a while,
then this one is rolled back: it has written rows and pending lists with fields that this version
does not know, at every depth. Rows outlive their time to live: DynamoDB deletes each item when it
comes to it, or later. The product's items live for 120 days, far longer than a world lasts, its
messages and its tasks. So months pass for one job alone.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from longhaul.core.store.table import TTL
from simulation.worlds.plan import Act
from simulation.worlds.randomness import unit
from simulation.worlds.stages import with_retired, without

if TYPE_CHECKING:
    from simulation.worlds.world import World

_QUEUES_GO_AFTER_S = 60.0  # CloudFormation deletes last


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


_UNKNOWN: Mapping[str, Any] = {"colour": "green", "weights": {"a": [1, {"b": None}]}}
_ATTRIBUTES: Mapping[str, Mapping[str, Any]] = {
    "colour": {"S": "green"},
    "weights": {"M": {"a": {"L": [{"N": "1"}]}}},
}
# Objects whose names are data: a field more would be a dataset, a column or a stage more.
_BY_NAME = frozenset({"rows", "columns", "types", "emitted"})
# Step Functions compares it byte for byte with what the execution was started with. The names of
# tags and of outputs are data.
_NEVER_REWRITTEN = frozenset({"execution_input", "tags", "places"})


def leave_newer_fields(world: "World", key: str) -> None:
    """Let the job's row and lists be as a newer version would have written them."""
    table = world.aws.dynamodb.tables[world.settings.leases_table]
    place = key, "lease"
    row = table.rows.get(place)
    if row is not None and row.item is not None:
        newer = {**{name: _value(name, value) for name, value in row.item.items()}, **_ATTRIBUTES}
        table.rows[place] = replace(row, item=newer)
        world.seen.rows[key] = newer
    lists = f"longhaul/pending/{key.replace('#', '!').replace('/', '!')}/"
    objects = world.aws.s3.buckets[world.bucket].objects
    for name in [name for name in objects if name.startswith(lists)]:
        body = _document(objects[name].body.decode()).encode()
        objects[name] = replace(objects[name], body=body)


def _value(name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    text = value.get("S", "")
    if name in _NEVER_REWRITTEN or not text.startswith("{"):
        return value
    return {"S": _document(text)}


def _document(text: str) -> str:
    return json.dumps(_with_unknown(json.loads(text)))


def _with_unknown(value: Any) -> Any:
    """The value with unknown fields in each object that is in it."""
    if isinstance(value, list):
        return [_with_unknown(each) for each in value]
    if isinstance(value, dict):
        known = {
            name: each if name in _BY_NAME else _with_unknown(each) for name, each in value.items()
        }
        return {**known, **_UNKNOWN}
    return value


_GONE = 0.6  # of the items that are due


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
