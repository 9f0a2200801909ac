"""What the end of an attempt would refuse, before its job computes; and whose wait its end is."""

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from longhaul.core.verdict import ExitCode
from longhaul.job import Job
from tests.builders import BUCKET
from tests.runner.conftest import Cloud, MakeAttempt

ROWS = pa.table({"n": range(3)})


class Watched:
    """S3, with something before each call."""

    def __init__(self, s3: Any, before: Callable[[], None]) -> None:
        self.s3 = s3
        self.before = before

    def __getattr__(self, name: str) -> Any:
        self.before()
        return getattr(self.s3, name)


def test_a_wait_for_s3_is_none_of_the_jobs_from_its_end_on(
    cloud: Cloud, make_plain_attempt: MakeAttempt
) -> None:
    cloud.claim(inputs={}, output=f"s3://{BUCKET}/out/")
    ended, phases = threading.Event(), list[str]()

    def before() -> None:
        if ended.is_set():
            phases.append(made.progress.phase)

    def run(job: Job[Any]) -> None:
        job.write(ROWS)
        ended.set()

    made = make_plain_attempt(run, s3=Watched(cloud.s3, before))
    assert made.run() is ExitCode.OK
    assert set(phases) == {"publishing"}
