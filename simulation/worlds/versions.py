"""What a newer version leaves behind when it is rolled back.

It has written rows and pending lists with fields that this version does not know, at every depth.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulation.worlds.world import World

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
