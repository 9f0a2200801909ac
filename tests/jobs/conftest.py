"""One Spark for all tests of jobs, on the gateway that the runner uses."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pyspark.sql import SparkSession

from jobs.api import Job, Params
from jobs.io.staging import StagedInput
from jobs.spark.gateway import Gateway
from jobs.spark.session import build_session
from jobs.task import Resources

RESOURCES = Resources(cores=2, memory_mib=2048)

MakeJob = Callable[..., Job[Any]]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    scratch = tmp_path_factory.mktemp("spark")
    gateway = Gateway(scratch, RESOURCES.heap_mib)
    gateway.attach()
    session = build_session("tests", RESOURCES, scratch)
    yield session
    session.stop()
    gateway.stop()


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    """A job over local files: `make_job({"flights": path}, params)`."""

    def make(inputs: Mapping[str, Path], params: BaseModel | None = None) -> Job[Any]:
        staged = {}
        for name, source in inputs.items():
            folder = tmp_path / "inputs" / name
            folder.mkdir(parents=True)
            (folder / f"00000-{source.name}").symlink_to(source)
            staged[name] = StagedInput(
                folder.as_uri(), 1, source.stat().st_size, frozenset({source.suffix.removeprefix(".")})
            )
        return Job(params or Params(), staged, tmp_path / "output", lambda _: None)

    return make


@pytest.fixture
def written(spark: SparkSession) -> Callable[..., list[dict[str, Any]]]:
    """Rows that a job wrote, as dictionaries."""

    def read(job: Job[Any], name: str = ".", format_: str = "parquet") -> list[dict[str, Any]]:
        (dataset,) = (dataset for dataset in job.written if dataset.name == name)
        frame = spark.read.format(format_).option("header", value=True).load(dataset.folder.as_uri())
        return [row.asDict() for row in frame.collect()]

    return read
