"""What the demo sends: twelve months of flights, one small file with bad rows, one body that is not valid, then two jobs over the results."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.data.flights import Spoiled, months, spoil

BAD_ROWS_JOB = "bad-rows"
DELAYS_JOB = "daily-delays"
TABLE_JOB = "delays-as-json"
KILLED_JOB = "flights-2013-07"
"""The month whose process group is killed from outside while it runs."""

INVALID_BODY = '{"job": "flights_cleam", "output": "s3://nobodys-bucket/x/", "colour": "red"}'


@dataclass(frozen=True)
class Submission:
    job_id: str
    request: dict[str, Any]

    @property
    def body(self) -> str:
        return json.dumps({**self.request, "job_id": self.job_id})


@dataclass(frozen=True)
class Inputs:
    """The files to upload, by key, and what is known of them."""

    months: Sequence[Path]
    bad_rows: Path
    spoiled: Spoiled


def prepare(cache: Path) -> Inputs:
    """The input files, fetched once into `cache`.

    Raises:
        FetchError: they could not be had.
    """
    files = months(cache)
    bad_rows = cache / "bad-rows.csv"
    return Inputs(files, bad_rows, spoil(files[0], bad_rows))


def month_jobs(bucket: str, inputs: Inputs) -> list[Submission]:
    return [_clean(bucket, file.stem, file.name) for file in inputs.months]


def bad_rows_job(bucket: str, inputs: Inputs) -> Submission:
    return _clean(bucket, BAD_ROWS_JOB, inputs.bad_rows.name)


def delays_job(bucket: str) -> Submission:
    """Over the twelve outputs at once: the glob follows each one's manifest."""
    request = {
        "job": "daily_delays",
        "inputs": {"flights": f"s3://{bucket}/clean/flights-2013-*"},
        "output": f"s3://{bucket}/delays/",
    }
    return Submission(DELAYS_JOB, request)


def table_job(bucket: str) -> Submission:
    """The same figures as JSON lines, so that the check can read them without Spark."""
    request = {
        "job": "sql",
        "inputs": {"delays": f"s3://{bucket}/delays/"},
        "output": f"s3://{bucket}/delays-json/",
        "params": {"query": "SELECT * FROM delays", "format": "json"},
    }
    return Submission(TABLE_JOB, request)


def _clean(bucket: str, job_id: str, file: str) -> Submission:
    request = {
        "job": "flights_clean",
        "inputs": {"flights": f"s3://{bucket}/raw/{file}"},
        "output": f"s3://{bucket}/clean/{job_id}/",
    }
    return Submission(job_id, request)
