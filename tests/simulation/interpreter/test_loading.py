"""The loader accepts only what the interpreter implements."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from simulation.aws.stepfunctions.asl.errors import UnsupportedError
from simulation.aws.stepfunctions.asl.loading import load
from tests.simulation.conformance.scripts import DEFINITION

Mutation = Callable[[dict[str, Any]], None]


def states(definition: dict[str, Any]) -> dict[str, Any]:
    """All states, by name."""
    found = dict(definition["States"])
    for branch in definition["States"]["RunUnderLease"]["Branches"]:
        found |= branch["States"]
    return found


def mutated(mutation: Mutation) -> str:
    definition = json.loads(DEFINITION)
    mutation(definition)
    return json.dumps(definition)


def set_in(state: str, **fields: Any) -> Mutation:
    return lambda definition: states(definition)[state].update(fields)


def drop_from(state: str, field: str) -> Mutation:
    return lambda definition: states(definition)[state].pop(field)


def test_definition_is_loaded_once_for_all_its_executions() -> None:
    assert load(DEFINITION) is load(DEFINITION)
    assert load(DEFINITION).resources == {
        "arn:aws:states:::lambda:invoke",
        "arn:aws:states:::ecs:runTask.sync",
    }


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
        definition = json.loads(DEFINITION)
        found = definition
        for step in place:
            found = found[step]
        found["Unheard"] = 1
        with pytest.raises(UnsupportedError, match="Unheard"):
            load(json.dumps(definition))


@pytest.mark.parametrize(
    ("mutation", "said"),
    [
        (set_in("Wait", Type="Pass"), "'SecondsPath'] is not interpreted"),
        (set_in("Outcome", Type="Map"), "Outcome: states of type 'Map'"),
        (drop_from("Done", "Type"), "Done: states of type None"),
        (set_in("Beat", InputPath="$.x"), "InputPath"),
        (set_in("Beat", HeartbeatSeconds=5), "HeartbeatSeconds"),
        (set_in("Beat", Credentials={}), "Credentials"),
        (
            set_in("Beat", Resource="arn:aws:states:::lambda:invoke.waitForTaskToken"),
            "waitForTaskToken",
        ),
        (set_in("Beat", Resource="arn:aws:states:::sqs:sendMessage.sync:2"), "sync:2"),
        (
            set_in("Beat", Resource="arn:aws:lambda:us-east-1:123456789012:function:f"),
            "no service integration",
        ),
        (set_in("Beat", ResultPath=None), "ResultPath None"),
        (set_in("Beat", ResultPath="$.beats[0]"), "ResultPath"),
        (set_in("Beat", TimeoutSeconds=0), "TimeoutSeconds: 0"),
        (set_in("Beat", TimeoutSeconds="60"), "TimeoutSeconds"),
        (set_in("Beat", TimeoutSecondsPath="$.t"), "needs one of"),
        (drop_from("Beat", "TimeoutSeconds"), "needs one of"),
        (drop_from("Beat", "Parameters"), "lacks ['Parameters']"),
        (drop_from("Beat", "Next"), "needs either Next or End"),
        (set_in("Beat", End=True), "needs either Next or End"),
        (set_in("Settle", End=False), "needs either Next or End"),
        (set_in("Settle", OutputPath="$$.Execution.Id"), "no path of the forms"),
        (set_in("SkipBeat", Seconds=1.5), "no whole number"),
        (set_in("SkipBeat", Seconds=True), "no whole number"),
        (set_in("SkipBeat", SecondsPath="$.wait_s"), "needs one of"),
        (set_in("SkipBeat", Timestamp="2026-01-01T00:00:00Z"), "Timestamp"),
        (set_in("FirstWait", SecondsPath="States.MathAdd($.a, 1)"), "no path of the forms"),
        (drop_from("Outcome", "Default"), "lacks ['Default']"),
        (
            set_in("Outcome", Choices=[{"Variable": "$.outcome", "IsNull": True, "Next": "Done"}]),
            "IsNull",
        ),
        (set_in("Outcome", Choices=[{"And": [], "Next": "Done"}]), "And"),
        (
            set_in("Outcome", Choices=[{"Variable": "$.o", "StringEquals": 1, "Next": "Done"}]),
            "compares with a string",
        ),
        (set_in("RunUnderLease", Retry=[]), "Retry"),
        (set_in("RunUnderLease", ResultPath="$.x"), "ResultPath"),
        (
            set_in(
                "RunUnderLease", Catch=[{"ErrorEquals": ["States.ALL", "Mine"], "Next": "Outcome"}]
            ),
            "States.ALL",
        ),
        (
            set_in("RunUnderLease", Catch=[{"ErrorEquals": ["States.Runtime"], "Next": "Outcome"}]),
            "States.Runtime",
        ),
        (set_in("RunUnderLease", Catch=[{"ErrorEquals": [], "Next": "Outcome"}]), "ErrorEquals"),
        (set_in("JobStalled", Cause="both"), "needs one of"),
        (set_in("JobStalled", ErrorPath="$.e"), "ErrorPath"),
        (set_in("Wait", Next="Nowhere"), "goes to ['Nowhere']"),
        (set_in("Wait", Next="Done"), "goes to ['Done']"),  # out of its branch
        (
            set_in("Outcome", Choices=[{"Variable": "$.o", "StringEquals": "x", "Next": "Done"}]),
            "nothing leads to",
        ),
        (lambda d: d.update(QueryLanguage="JSONata"), "QueryLanguage"),
        (lambda d: d.update(TimeoutSeconds=60), "TimeoutSeconds"),
        (lambda d: d["States"].update(Settle=d["States"]["Done"]), "nothing leads to ['Settle']"),
        (
            lambda d: d["States"]["RunUnderLease"]["Branches"].append(
                d["States"]["RunUnderLease"]["Branches"][0]
            ),
            "two states have one name",
        ),
        (lambda d: d["States"].update(Done="Succeed"), "Done: 'Succeed' is no object"),
    ],
)
def test_unknown_part_of_a_definition_is_refused_by_name(mutation: Mutation, said: str) -> None:
    with pytest.raises(UnsupportedError) as refused:
        load(mutated(mutation))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"JitterStrategy": "NONE"}, "only FULL"),
        ({"IntervalSeconds": 0}, "is less than"),
        ({"BackoffRate": 0.5}, "is less than"),
        ({"MaxAttempts": -1}, "is less than"),
        ({"ErrorEquals": ["States.TaskFailed"]}, "States.TaskFailed"),
        ({"Comment": "why"}, "Comment"),
    ],
)
def test_unknown_form_of_a_retrier_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UnsupportedError) as refused:
        load(mutated(lambda definition: states(definition)["Beat"]["Retry"][0].update(change)))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "field", ["IntervalSeconds", "BackoffRate", "MaxAttempts", "MaxDelaySeconds", "JitterStrategy"]
)
def test_retrier_needs_every_field(field: str) -> None:
    with pytest.raises(UnsupportedError, match=f"lacks .*{field}"):
        load(mutated(lambda definition: states(definition)["Beat"]["Retry"][0].pop(field)))
