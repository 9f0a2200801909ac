"""Schedules of stages, and single starts."""

import json
import re
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import botocore.session
import pytest
from pydantic import JsonValue

from longhaul.config.errors import SettingsError
from longhaul.config.rules import MAX_QUEUE_PREFIX
from longhaul.core.policy import parse_request
from longhaul.core.settings import PathPolicy
from tests.builders import settings, stage
from tests.layers import ROOT
from tests.projects import checked

PAGE = ROOT / "docs" / "daily.md"
REQUEST: Mapping[str, JsonValue] = {"job": "flights_clean", "output": "s3://<data-bucket>/x/"}


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ({"expression": "at(2027-01-01T00:00:00)"}, 'expression: is "at(2027-01-01T00:00:00)"; st'),
        ({"expression": "every day"}, 'expression: is "every day"; string should match pattern'),
        ({"request": {}}, "request: is {}; dictionary should have at least 1 item"),
        (
            {"request": {**REQUEST, "job_id": "nightly"}},
            "request: job_id must hold <aws.scheduler.scheduled-time>: with the same one each time",
        ),
        (
            {"request": {**REQUEST, "params": {"run": ["<aws.scheduler.execution-id>"]}}},
            "request: <aws.scheduler.execution-id>: unknown; allowed: ",
        ),
        (
            {"request": {**REQUEST, "output": "s3://<bucket>/x/"}},
            "request: <bucket>: unknown; allowed: <data-bucket>, <aws.scheduler.scheduled-time>,",
        ),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_a_wrong_schedule_is_refused_with_the_reason(
    schedule: Mapping[str, JsonValue], message: str
) -> None:
    whole = {"expression": "rate(1 day)", "request": dict(REQUEST), **schedule}
    with pytest.raises(SettingsError) as refused:
        checked({"stages": [{"schedule": whole}]})

    assert str(refused.value).startswith(f"longhaul.stages.0.schedule.{message}")


def test_the_longest_name_of_a_schedule_is_one_that_scheduler_takes() -> None:
    model = botocore.session.get_session().get_service_model("scheduler")
    asked: Any = model.shape_for("CreateScheduleInput")
    assert asked.members["Name"].metadata["max"] == MAX_QUEUE_PREFIX


def test_the_docs_command_for_a_single_start_names_its_time() -> None:
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (command,) = (each for each in blocks if "--at " in each)
    words = shlex.split(command.removeprefix("$ ").replace("\\\n", " "))
    given = dict(zip(words[2::2], words[3::2], strict=True))

    assert words[:2] == ["longhaul", "submit"]
    request = {"job": given["--job"], "output": given["--output"], "start_at": given["--at"]}
    known = settings(paths=PathPolicy(data_bucket="my-data"))
    start_at = parse_request(json.dumps(request), known, stage()).start_at
    assert start_at == datetime(2026, 12, 31, 23, 30, tzinfo=UTC)
