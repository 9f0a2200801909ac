"""A rehearsal on the embedded AWS: what that has is asked, and nothing is left behind.

A module of its own, because a process has one embedded AWS at a time.
"""

from pathlib import Path

import pytest

from longhaul.adapters.clock import SystemClock
from longhaul.cli.checks.finding import Level
from longhaul.cli.place import Place
from longhaul.cli.rehearsal.rehearse import Assembly, answers, questions
from longhaul.cli.rehearsal.template import Template
from longhaul.cli.target import Target
from longhaul.local.cloud import EmbeddedAws
from tests.cli.rehearsal.conftest import plan_of

pytestmark = pytest.mark.slow

BUCKET = "cdk-assets"


def test_what_the_embedded_aws_has_is_asked_and_nothing_is_left_there(
    template: Template, tmp_path: Path
) -> None:
    with EmbeddedAws(work_dir=tmp_path, task_dir=tmp_path) as aws:
        target = Target(Place(aws.endpoint, aws.region, None, embedded=True), "Longhaul")
        s3, cloudformation = target.client("s3"), target.client("cloudformation")
        s3.create_bucket(Bucket=BUCKET)
        found = {
            question.name: list(answers(question))
            for question in questions(
                plan_of(target),
                Assembly(template, BUCKET),
                token="abc123",
                clock=SystemClock(),
                warn=pytest.fail,
            )
        }

        assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET)
        statuses = {each["StackStatus"] for each in cloudformation.list_stacks()["StackSummaries"]}
        assert statuses <= {"DELETE_COMPLETE"}
    said = {name: {each.level for each in several} for name, several in found.items()}
    assert {name for name, levels in said.items() if Level.OK in levels} == {
        *("stages", "tables", "catalog", "config", "change set")
    }
    # It has no bootstrap, and no role of ECS's. What moto lacks is not asked, and no success.
    assert {name for name, levels in said.items() if Level.PROBLEM in levels} == {
        *("bootstrap", "ecs")
    }
    assert said["policies"] == said["definition"] == {Level.SKIPPED}
