"""Helpers of the tests of the embedded AWS."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import psutil
import pytest
from botocore.exceptions import ClientError

from longhaul.local.credentials import aws_client
from longhaul.local.ecs_driver import EcsDriver
from longhaul.local.host import Host
from longhaul.local.log_shipper import LogShipper
from longhaul.local.moto_repairs.patching import Patches
from tests.patience import DEADLINE_S

End = TypeVar("End")
ACCOUNT = "123456789012"
REGION = "us-east-1"


def eventually(
    condition: Callable[[], Any],
    what: str,
    deadline_s: float = DEADLINE_S,
    *,
    every_s: float = 0.02,
    story: Callable[[], str] = str,
) -> Any:
    """Poll until `condition` returns a true value, and return it; fail with the `story`."""
    end = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}\n{story()}"
        time.sleep(every_s)
    return value


def error_code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])


@dataclass(frozen=True)
class Moto:
    """moto's own server, and the patches that repairs are applied to."""

    endpoint: str
    patches: Patches

    def client(self, service: str) -> Any:
        return aws_client(service, endpoint=self.endpoint, region=REGION)

    def apply(self, *repairs: Callable[[Patches], None]) -> None:
        for repair in repairs:
            repair(self.patches)


def mends(*repairs: Callable[[Patches], None]) -> pytest.MarkDecorator:
    """Marks a test that runs on moto with these repairs, and on stock moto."""
    return pytest.mark.mends.with_args(*repairs)


class Observer(Generic[End]):
    """What a driver says of a task or of a job run."""

    def __init__(self) -> None:
        self.starts: list[datetime] = []
        self.ends: list[End] = []

    def started(self, at: datetime) -> None:
        self.starts.append(at)

    def ended(self, end: End) -> None:
        self.ends.append(end)

    def wait(self) -> End:
        (end,) = eventually(lambda: self.ends, "its end")
        return cast("End", end)


@contextmanager
def ecs_driver(endpoint: str, *, work_dir: Path, cwd: Path) -> Iterator[EcsDriver]:
    """Runs tasks as processes, with what it needs beside it; `endpoint` is their AWS."""
    with (
        closing(LogShipper(ACCOUNT, REGION)) as shipper,
        closing(EcsDriver(Host(endpoint, REGION, work_dir, shipper), cwd=cwd)) as driver,
    ):
        yield driver


ROLE = {
    "Type": "AWS::IAM::Role",
    "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
}


def function(handler: str, **properties: Any) -> dict[str, Any]:
    """A function of the small assembly."""
    return {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Runtime": "python3.13",
            "Handler": f"app.{handler}",
            "Timeout": 20,
            "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            "Code": {
                "S3Bucket": {"Fn::Sub": "assets-${AWS::AccountId}-${AWS::Region}"},
                "S3Key": "code.zip",
            },
            **properties,
        },
    }


def process_runs(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def branch(**states: Any) -> dict[str, Any]:
    """A branch of a Parallel state. It starts at the first of these states."""
    return {"StartAt": next(iter(states)), "States": states}
