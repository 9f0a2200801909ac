"""Records the time of its first line; without Spark."""

import time
from pathlib import Path

from longhaul.job import Job
from longhaul.job import Params as BaseParams


class Params(BaseParams):
    stamp: str


def run(job: Job[Params]) -> None:
    Path(job.params.stamp).write_text(str(time.time()))
    (job.files() / "done").touch()
