"""A rehearsal on the embedded AWS: what that has is asked, and nothing is left behind.

A module of its own, because a process has one embedded AWS at a time.
"""

from contextlib import suppress
from pathlib import Path

import pytest
from botocore.parsers import ResponseParserError

from longhaul.adapters.clock import SystemClock
from longhaul.cli.checks.change_set import asked
from longhaul.cli.checks.plan import Plan
from longhaul.cli.place import Place
from longhaul.cli.target import Target
from longhaul.cli.terminal.output import Output
from longhaul.config.settings import Settings
from longhaul.local.cloud import EmbeddedAws

pytestmark = pytest.mark.slow


def test_what_the_embedded_aws_has_is_asked_and_nothing_is_left_there(
    template: str, tmp_path: Path
) -> None:
    with EmbeddedAws(work_dir=tmp_path, task_dir=tmp_path) as aws:
        target = Target(Place(aws.endpoint, aws.region, None, embedded=True), "Longhaul")
        s3, cloudformation = target.client("s3"), target.client("cloudformation")
        bucket = f"cdk-hnb659fds-assets-{target.identity['Account']}-{aws.region}"
        s3.create_bucket(Bucket=bucket)
        with suppress(ResponseParserError):  # moto knows no events of a change set
            list(asked(Plan(target, Settings()), template, "abc123", SystemClock(), Output()))

        assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
        statuses = {each["StackStatus"] for each in cloudformation.list_stacks()["StackSummaries"]}
        assert statuses <= {"DELETE_COMPLETE"}
