"""The demo's messages: a job for a year of flights, one for a bad file, an invalid body."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.demo.flights import Spoiled, months, spoil
from longhaul.core.lease import job_key
from longhaul.core.places import TablePath

FLIGHTS = TablePath("longhaul", "flights")
"""To which the months add their rows, and which the join reads."""

DELAYS = TablePath("longhaul", "delays")
"""What the join makes of them."""

INVALID_BODY = '{"job": "flights_cleam", "output": "s3://nobodys-bucket/x/", "colour": "red"}'


@dataclass(frozen=True)
class SampleJob:
    stage: str
    job_id: str
    request: dict[str, Any]

    @property
    def key(self) -> str:
        return job_key(self.stage, self.job_id)

    @property
    def body(self) -> str:
        return json.dumps({**self.request, "job_id": self.job_id})


@dataclass(frozen=True)
class Inputs:
    """The files to upload."""

    months: Sequence[Path]
    bad_rows: Path
    spoiled: Spoiled


def prepare(cache: Path) -> Inputs:
    """The input files. Missing files are downloaded into `cache`.

    Raises:
        FetchError: the data could not be downloaded.
    """
    files = months(cache)
    bad_rows = cache / "bad-rows.csv"
    return Inputs(files, bad_rows, spoil(files[0], bad_rows))


def year(bucket: str) -> SampleJob:
    """The whole pipeline.

    The job `months` emits a request per month for the stage `clean`. The stage `delays` starts when
    all twelve are done. Both write to tables, as `longhaul.toml` has it.
    """
    request = {
        "output": f"s3://{bucket}/months/",
        "params": {"year": 2013, "source": f"s3://{bucket}/raw/flights-{{year}}-{{month}}.csv"},
    }
    return SampleJob("months", "flights-2013", request)


def bad_rows(bucket: str, inputs: Inputs) -> SampleJob:
    request = {
        "job": "flights_clean",
        "inputs": {"flights": f"s3://{bucket}/raw/{inputs.bad_rows.name}"},
        "output": f"s3://{bucket}/clean/bad-rows/",
    }
    return SampleJob("main", "bad-rows", request)
