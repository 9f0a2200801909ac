"""A rehearsal on the embedded AWS: what that has is asked, and nothing is left behind.

A module of its own, because a process has one embedded AWS at a time.
"""

from contextlib import suppress
from pathlib import Path

import pytest
from botocore.parsers import ResponseParserError

from longhaul.adapters.clock import SystemClock
from longhaul.cli.checks.finding import Finding, Level
from longhaul.cli.place import Place
from longhaul.cli.rehearsal.change_set import Template, checked
from longhaul.cli.target import Target
from longhaul.local.cloud import EmbeddedAws

pytestmark = pytest.mark.slow

BUCKET = "cdk-assets"


def test_what_the_embedded_aws_has_is_asked_and_nothing_is_left_there(
    template: Template, tmp_path: Path
) -> None:
    with EmbeddedAws(work_dir=tmp_path, task_dir=tmp_path) as aws:
        target = Target(Place(aws.endpoint, aws.region, None, embedded=True), "Longhaul")
        s3, cloudformation = target.client("s3"), target.client("cloudformation")
        s3.create_bucket(Bucket=BUCKET)
        found: list[Finding] = []
        asked = checked(
            target, template, bucket=BUCKET, token="abc123", clock=SystemClock(), warn=pytest.fail
        )
        with suppress(ResponseParserError):  # moto knows no events of a change set
            found.extend(asked)

        assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET)
        statuses = {each["StackStatus"] for each in cloudformation.list_stacks()["StackSummaries"]}
        assert statuses <= {"DELETE_COMPLETE"}
    assert {each.level for each in found} == {Level.OK}
