"""A year of flights as one job per month: emits a request for each into the next stage."""

from typing import Annotated

from pydantic import Field, JsonValue
from pyspark.sql import SparkSession

from longhaul.job import Job
from longhaul.job import Params as BaseParams

Month = Annotated[int, Field(ge=1, le=12)]


class Params(BaseParams):
    year: Annotated[int, Field(ge=1900, le=2999)]
    source: Annotated[str, Field(pattern=r"\{month\}")]
    """Where a month's flights are: `s3://bucket/raw/flights-{year}-{month}.csv`, months as 01."""
    months: Annotated[tuple[Month, ...], Field(min_length=1, max_length=12)] = tuple(range(1, 13))


def run(_spark: SparkSession, job: Job[Params]) -> None:
    params = job.params
    requests: list[dict[str, JsonValue]] = [
        {"inputs": {"flights": _path(params.source, params.year, month)}} for month in params.months
    ]
    job.emit(*requests)
    job.progress(f"{len(params.months)} months")


def _path(source: str, year: int, month: int) -> str:
    return source.replace("{year}", str(year)).replace("{month}", f"{month:02}")
