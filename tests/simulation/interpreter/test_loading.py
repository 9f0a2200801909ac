"""The loader accepts only what the interpreter implements."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from simulation.aws.stepfunctions.asl.machine import load
from simulation.aws.template import deployed

DEFINITION = deployed().definition
ABSENT = object()
BEAT = ("RunUnderLease", "Branches", 1, "States", "Beat")
SKIP_BEAT, STALLED = ((*BEAT[:-1], name) for name in ("SkipBeat", "JobStalled"))
SETTLE = ("RunUnderLease", "Branches", 0, "States", "Settle")
RETRY = (*BEAT, "Retry", 0)
CATCH = ("RunUnderLease", "Catch", 0)


def changed(*steps: Any, value: Any) -> str:
    """The definition with another value at that place."""
    definition = json.loads(DEFINITION)
    found = definition
    for step in steps[:-1]:
        found = found[step]
    found[steps[-1]] = value
    if value is ABSENT:
        del found[steps[-1]]
    return json.dumps(definition)


def test_definition_is_loaded_once_for_all_its_executions() -> None:
    assert load(DEFINITION) is load(DEFINITION)


PAYLOADS = ("Parameters", "ResultSelector", "Result")


def objects(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of objects with fixed fields: no payloads, and not `States`, which has names."""
    if isinstance(value, dict):
        if not path or path[-1] != "States":
            yield path
        for name, inner in value.items():
            if name not in PAYLOADS:
                yield from objects(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from objects(inner, (*path, index))


def test_unknown_field_is_refused_anywhere() -> None:
    places = list(objects(json.loads(DEFINITION)))
    assert len(places) > 30
    for place in places:
        with pytest.raises(ValidationError, match="Unheard"):
            load(changed(*place, "Unheard", value=1))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("Outcome", "Type"), "Map"),
        (("Done", "Type"), ABSENT),
        (("Outcome", "Default"), ABSENT),
        (("Outcome", "Choices", 0), {"And": [], "Next": "Done"}),
        (("Outcome", "Choices", 0, "StringEquals"), 1),
        ((*BEAT, "Resource"), "arn:aws:states:::lambda:invoke.waitForTaskToken"),
        ((*BEAT, "ResultPath"), None),
        ((*BEAT, "ResultPath"), "$.beats[0]"),
        ((*BEAT, "TimeoutSeconds"), 0),
        ((*BEAT, "TimeoutSeconds"), "60"),
        ((*BEAT, "TimeoutSeconds"), ABSENT),
        ((*BEAT, "TimeoutSecondsPath"), "$.t"),
        ((*BEAT, "Parameters"), ABSENT),
        ((*BEAT, "Next"), ABSENT),
        ((*BEAT, "End"), True),
        ((*SETTLE, "End"), False),
        ((*SETTLE, "OutputPath"), "$$.Execution.Id"),
        ((*SKIP_BEAT, "Seconds"), 1.5),
        ((*SKIP_BEAT, "Seconds"), True),
        ((*SKIP_BEAT, "SecondsPath"), "$.wait_s"),
        ((*STALLED, "Cause"), "both"),
        ((*CATCH, "ErrorEquals"), ["States.ALL", "Mine"]),
        ((*CATCH, "ErrorEquals"), ["States.Runtime"]),
        ((*CATCH, "ErrorEquals"), []),
        ((*RETRY, "JitterStrategy"), "NONE"),
        ((*RETRY, "IntervalSeconds"), 0),
        ((*RETRY, "BackoffRate"), 0.5),
        ((*RETRY, "MaxAttempts"), -1),
        *(((*RETRY, name), ABSENT) for name in ("IntervalSeconds", "BackoffRate", "MaxAttempts")),
        *(((*RETRY, name), ABSENT) for name in ("MaxDelaySeconds", "JitterStrategy")),
        (("Done",), "Succeed"),
    ],
)
def test_unknown_part_of_a_definition_is_refused(place: tuple[Any, ...], value: object) -> None:
    with pytest.raises((ValidationError, TypeError)):
        load(changed("States", *place, value=value))
