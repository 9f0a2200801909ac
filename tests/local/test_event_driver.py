import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longhaul.local import firing
from longhaul.local.cloud import EmbeddedAws
from tests.local.support import eventually, function

STATUS_CHANGE = {
    "source": ["aws.states"],
    "detail-type": ["Step Functions Execution Status Change"],
}


CODE = """
    import json, os, pathlib, uuid

    def record(event, context):
        folder = pathlib.Path(os.environ["LOG"])
        name = uuid.uuid4().hex
        (folder / f"{name}.part").write_text(json.dumps(event))
        (folder / f"{name}.part").rename(folder / f"{name}.json")
"""
WAITING = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 600, "End": True}}}


def rule(**properties: Any) -> dict[str, Any]:
    target = {"Id": "recorder", "Arn": {"Fn::GetAtt": ["Recorder", "Arn"]}}
    return {
        "Type": "AWS::Events::Rule",
        "Properties": {"State": "ENABLED", "Targets": [target], **properties},
    }


def resources(events: Path, **rules: Any) -> dict[str, Any]:
    machine = {
        "Type": "AWS::StepFunctions::StateMachine",
        "Properties": {
            "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
            "DefinitionString": json.dumps(WAITING),
        },
    }
    return {
        "Machine": machine,
        "Recorder": function("record", Environment={"Variables": {"LOG": str(events)}}),
        **rules,
    }


def received(events: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in events.glob("*.json")]


def test_aborted_execution_is_an_event_for_the_target_of_its_rule(
    aws: EmbeddedAws, assembly: Callable[..., Path], client: Callable[[str], Any], events: Path
) -> None:
    pattern = STATUS_CHANGE | {
        "detail": {
            "status": ["FAILED", "TIMED_OUT", "ABORTED"],
            "stateMachineArn": [{"Ref": "Machine"}],
        }
    }
    template = resources(events, Aborted=rule(EventPattern=pattern))
    machine = aws.deploy(assembly(template, CODE, {"Machine": {"Ref": "Machine"}}), "Tiny")[
        "Machine"
    ]
    states = client("stepfunctions")
    arn = states.start_execution(stateMachineArn=machine, name="run", input='{"order": 1}')[
        "executionArn"
    ]

    states.stop_execution(executionArn=arn, error="Enough", cause="of it")

    (event,) = eventually(lambda: received(events), "the event")
    assert (event["source"], event["detail-type"], event["resources"]) == (
        "aws.states",
        *STATUS_CHANGE["detail-type"],
        [arn],
    )
    detail = event["detail"]
    assert (detail["executionArn"], detail["status"], detail["error"], detail["cause"]) == (
        arn,
        "ABORTED",
        "Enough",
        "of it",
    )
    assert json.loads(detail["input"]) == {"order": 1}
    assert detail["startDate"] <= detail["stopDate"]


def test_schedule_fires_after_its_rate(
    aws: EmbeddedAws, assembly: Callable[..., Path], events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(firing.SECONDS, "minute", 0.2)
    aws.deploy(
        assembly(resources(events, Often=rule(ScheduleExpression="rate(1 minute)")), CODE), "Tiny"
    )

    eventually(lambda: len(received(events)) >= 2, "two events")

    assert received(events)[0]["detail-type"] == "Scheduled Event"


def test_rule_that_would_never_send_is_refused(
    aws: EmbeddedAws, assembly: Callable[..., Path], events: Path
) -> None:
    topic = {"Id": "topic", "Arn": "arn:aws:sns:us-east-1:123456789012:topic"}
    refused = rule(EventPattern=STATUS_CHANGE, Targets=[topic])
    with pytest.raises(NotImplementedError, match="rule"):
        aws.deploy(assembly(resources(events, Refused=refused), CODE), "Tiny")
