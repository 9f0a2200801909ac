"""Which attributes of a row an attempt names in its writes: its role may name no others."""

import re
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from longhaul.core import transitions
from longhaul.core.lease import AttemptId, CommittedOutput, RecordedResult
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.records import Records
from longhaul.core.store.table import INDEXES, NAMED_BY_TASKS, TTL
from tests.builders import NOW

ATTEMPT = AttemptId("main#a", 1, 1)
OUTPUT = CommittedOutput(1, 1, 1, prefix="s3://data/out/")
_WORDS = {"SET", "REMOVE", "ADD", "AND", "OR", "NOT", "IN", "BETWEEN"}


def named(request: dict[str, Any]) -> set[str]:
    """The attributes in the expressions and the key of an UpdateItem."""
    text = f"{request['UpdateExpression']} {request['ConditionExpression']}"
    found = set(re.findall(r"(?<![:\w])#?\w+(?!\w*\()", text)) - _WORDS
    names = request["ExpressionAttributeNames"]
    return {names.get(each, each) for each in found} | request["Key"].keys()


WRITES: list[Callable[[DynamoLeases], object]] = [
    lambda leases: leases.report(transitions.register_task(ATTEMPT, "arn:task", NOW)),
    lambda leases: leases.report(transitions.report_progress(ATTEMPT, {"done": 1}, NOW, NOW)),
    lambda leases: leases.report(
        transitions.record_result(ATTEMPT, RecordedResult(1, "failed", "why"))
    ),
    lambda leases: leases.report(transitions.save(ATTEMPT, "record-1", "record-2", 9, NOW)),
    lambda leases: leases.report(transitions.commit(ATTEMPT, OUTPUT)),
    lambda leases: leases.report(transitions.mark_published(ATTEMPT, NOW)),
]


def test_the_role_of_a_task_may_name_what_its_writes_name_and_no_more() -> None:
    class Sent(Exception):  # noqa: N818 - no error
        pass

    found: set[str] = set()
    for write in WRITES:
        client = Mock()
        client.update_item.side_effect = Sent
        with pytest.raises(Sent):
            write(DynamoLeases(Records(client, "leases", Mock(), Mock())))
        found |= named(client.update_item.call_args.kwargs)

    assert found == set(NAMED_BY_TASKS)
    # A row is deleted at its time to live, and found by what the indexes hold.
    assert not {TTL, *(index.name for index in INDEXES)} & found
