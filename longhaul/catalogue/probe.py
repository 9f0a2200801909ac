"""A small job that ends as its parameters say: `longhaul verify` sends it to a deployed stack."""

import os
import time
from typing import Annotated, Final, Literal

from pydantic import Field
from pyspark.sql import SparkSession

from longhaul.job import Job, PermanentJobError
from longhaul.job import Params as BaseParams

Step = Literal["succeed", "fail", "refuse", "wait"]

# Long enough for a slow watcher to stop or cancel it, and not for ever where none does.
WAIT_S: Final = 900
_LOOK_S: Final = 0.2


class Params(BaseParams):
    plan: Annotated[tuple[Step, ...], Field(min_length=1, max_length=20)] = ("succeed",)
    """What each attempt does; the last step also holds for the attempts after it."""


def run(spark: SparkSession, job: Job[Params]) -> None:
    params = job.params
    number = int(os.environ["LONGHAUL_ATTEMPT"])
    match params.plan[min(number, len(params.plan)) - 1]:
        case "fail":
            raise RuntimeError("the probe fails, as its plan says")
        case "refuse":
            raise PermanentJobError("the probe cannot succeed, as its plan says")
        case "wait":
            _wait(job)
    rows = job.write(spark.range(1))
    job.progress(f"{rows} rows")


def _wait(job: Job[Params]) -> None:
    """Wait to be stopped or cancelled."""
    ends = time.monotonic() + WAIT_S
    with job.quiet("waits to be disturbed", f"{WAIT_S}s"):
        while time.monotonic() < ends:
            time.sleep(_LOOK_S)
    raise RuntimeError(f"the probe was not disturbed within {WAIT_S} s")
