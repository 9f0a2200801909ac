"""Triggers of stages: a job for each object that is created."""

import json
from collections.abc import Mapping
from typing import Any

import botocore.session
import pytest
from moto.events.models import EventPattern
from pydantic import JsonValue

from longhaul.config.errors import SettingsError
from longhaul.config.rules import MAX_QUEUE_PREFIX
from longhaul.core.request import CreatedObject
from longhaul.local.event_driver import transformed
from tests.cdk.synthesis import Synthesis
from tests.layers import ROOT
from tests.projects import checked
from tests.synthesized import local_profile

EVENT: Mapping[str, Any] = {
    "source": "aws.s3",
    "detail-type": "Object Created",
    "detail": {
        "bucket": {"name": "their-input"},
        "object": {
            "key": "incoming/flights/x.csv",
            "size": 7,
            "etag": "b1946ac92492d2347c6235b4d2611184",
        },
    },
}
REQUEST: Mapping[str, JsonValue] = {
    "job": "flights_clean",
    "inputs": {"flights": "{object}"},
    "output": "s3://<data-bucket>/clean/{object.id}/",
}


def rule_and_target(synthesis: Synthesis) -> tuple[dict[str, Any], dict[str, Any]]:
    rule = synthesis.resources("AWS::Events::Rule")["TriggersCleanUpObjects"]
    (target,) = rule["Targets"]
    return rule, target


def event_for(key: str) -> dict[str, Any]:
    detail = EVENT["detail"]
    return {**EVENT, "detail": {**detail, "object": {**detail["object"], "key": key}}}


@pytest.mark.parametrize(
    ("key", "size", "starts"),
    [
        ("incoming/flights/x.csv", 1, True),
        ("incoming/flights/x.csv", 50 * 1024**4, True),
        ("incoming/flights/deep/y z.csv", 5_000_000_001, True),
        ("incoming/flights/x.json", 1, False),
        ("incoming/other/x.csv", 1, False),
        ("incoming/flights/new.csv", 0, False),  # the empty object of a new folder
    ],
)
def test_a_rule_matches_prefix_and_suffix_of_what_is_not_empty(
    varied: Synthesis, key: str, size: int, *, starts: bool
) -> None:
    rule, _ = rule_and_target(varied)
    event: Any = event_for(key)
    event["detail"]["object"]["size"] = size
    assert EventPattern.load(json.dumps(rule["EventPattern"])).matches_event(event) is starts


@pytest.mark.parametrize(
    "key",
    [
        "incoming/flights/x.csv",
        'incoming/flights/a"},"job":"sql","x":".csv',
        "incoming/flights/../[1]*?{object}.csv",
        "incoming/flights/ü\\\n\u2028.csv",
        "incoming/flights/" + "x" * 1000,
    ],
)
def test_what_is_sent_is_the_stages_request_whatever_the_key_holds(
    varied: Synthesis, key: str
) -> None:
    _, target = rule_and_target(varied)
    transformer = target["InputTransformer"]
    template = transformer["InputTemplate"].replace("<Data>", "data")

    body = json.loads(transformed({**transformer, "InputTemplate": template}, event_for(key)))

    made = CreatedObject.model_validate(body.pop("object"))
    assert (made.bucket, made.key) == ("their-input", key)
    assert made.etag == "b1946ac92492d2347c6235b4d2611184"
    assert body == {
        "job": "flights_clean",
        "inputs": {"flights": "{object}"},
        "output": "s3://data/nightly/{object.id}/",
    }


def test_the_data_bucket_publishes_events_only_for_a_trigger(
    usual: Synthesis, varied: Synthesis, tmp_path_factory: pytest.TempPathFactory
) -> None:
    local = Synthesis(local_profile(tmp_path_factory))
    published = [
        each.resources("AWS::S3::Bucket")["Data"].get("NotificationConfiguration")
        for each in (usual, varied, local)
    ]
    assert published == [
        None,
        None,
        {"EventBridgeConfiguration": {"EventBridgeEnabled": True}},
    ]
    assert not any("Custom::" in each["Type"] for each in local.template["Resources"].values())


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ({"prefix": ""}, "stages.0.advanced.on_object.prefix: is"),
        (
            {"prefix": "longhaul/requests/"},
            "stages.0.advanced.on_object.request: inputs.flights: longhaul/ in the data bucket is",
        ),
        ({"suffix": "*.csv"}, "stages.0.advanced.on_object.suffix: is"),
        (
            {"bucket": "theirs"},
            "stages.0.advanced.on_object.request: inputs.flights: this bucket is not allowed",
        ),
        (
            {"request": {**REQUEST, "job_id": "one"}},
            "stages.0.advanced.on_object.request: job_id and object are made for each object",
        ),
        (
            {"request": {**REQUEST, "inputs": {"flights": "s3://<data-bucket>/all/"}}},
            "stages.0.advanced.on_object.request: no input is {object}",
        ),
        (
            {"request": {**REQUEST, "output": "s3://<data-bucket>/clean/"}},
            "stages.0.advanced.on_object.request: output must hold {object.id}",
        ),
        (
            {"request": {**REQUEST, "outputs": {"report": "s3://<data-bucket>/report/"}}},
            "stages.0.advanced.on_object.request: output must hold {object.id}, and each",
        ),
        ({"request": {**REQUEST, "colour": 1}}, "on_object.request: colour: unknown field"),
        (
            {"request": {**REQUEST, "output": "s3://<data-bucket>/incoming/{object.id}/"}},
            "on_object.request: output: is below incoming/, so each of its files",
        ),
        (
            {
                "request": {
                    **REQUEST,
                    "outputs": {"report": "s3://<data-bucket>/incoming/{object.id}/"},
                }
            },
            "on_object.request: outputs.report: is below incoming/",
        ),
        (
            {
                "prefix": "tables/",
                "request": {**REQUEST, "output": "table://longhaul/files", "mode": "append"},
            },
            "on_object.request: output: is below tables/, so each of its files",
        ),
        (
            {"request": {**REQUEST, "params": {"at": "<aws.events.rule-arn>"}}},
            "stages.0.advanced.on_object.request: '<' begins a keyword of EventBridge",
        ),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_a_wrong_trigger_is_refused_with_the_reason(
    trigger: Mapping[str, JsonValue], message: str
) -> None:
    whole = {"prefix": "incoming/", "request": dict(REQUEST), **trigger}
    with pytest.raises(SettingsError) as refused:
        checked({"stages": [{"advanced": {"on_object": whole}}]})

    assert message in str(refused.value)


def test_triggers_that_would_start_each_other_are_refused() -> None:
    def stage(name: str, prefix: str, to: str) -> JsonValue:
        request = {**REQUEST, "output": f"s3://<data-bucket>/{to}{{object.id}}/"}
        return {"name": name, "advanced": {"on_object": {"prefix": prefix, "request": request}}}

    with pytest.raises(SettingsError, match="so each of its files would start a job of two"):
        checked({"stages": [stage("one", "a/", "b/"), stage("two", "b/", "a/")]})


# Schedules of stages, and single starts.


PAGE = ROOT / "docs" / "daily.md"
SCHEDULED: Mapping[str, JsonValue] = {"job": "flights_clean", "output": "s3://<data-bucket>/x/"}


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ({"expression": "at(2027-01-01T00:00:00)"}, 'expression: is "at(2027-01-01T00:00:00)"; st'),
        ({"expression": "every day"}, 'expression: is "every day"; string should match pattern'),
        ({"request": {}}, "request: is {}; dictionary should have at least 1 item"),
        (
            {"request": {**SCHEDULED, "job_id": "nightly"}},
            "request: job_id must hold <aws.scheduler.scheduled-time>: with the same one each time",
        ),
        (
            {"request": {**SCHEDULED, "params": {"run": ["<aws.scheduler.execution-id>"]}}},
            "request: <aws.scheduler.execution-id>: unknown; allowed: ",
        ),
        (
            {"request": {**SCHEDULED, "output": "s3://<bucket>/x/"}},
            "request: <bucket>: unknown; allowed: <data-bucket>, <aws.scheduler.scheduled-time>,",
        ),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_a_wrong_schedule_is_refused_with_the_reason(
    schedule: Mapping[str, JsonValue], message: str
) -> None:
    whole = {"expression": "rate(1 day)", "request": dict(SCHEDULED), **schedule}
    with pytest.raises(SettingsError) as refused:
        checked({"stages": [{"schedule": whole}]})

    assert str(refused.value).startswith(f"longhaul.stages.0.schedule.{message}")


def test_the_longest_name_of_a_schedule_is_one_that_scheduler_takes() -> None:
    model = botocore.session.get_session().get_service_model("scheduler")
    asked: Any = model.shape_for("CreateScheduleInput")
    assert asked.members["Name"].metadata["max"] == MAX_QUEUE_PREFIX
