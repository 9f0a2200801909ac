"""What the tests of an attempt share besides fixtures."""

from collections.abc import Callable
from typing import Any

from pyiceberg.table import Table
from pyspark.sql import SparkSession

from longhaul.core.job_kinds import JobKind
from longhaul.core.places import TablePath
from longhaul.job import Job
from longhaul.outputs.iceberg.catalog import Tables
from longhaul.runner.spark.sample import SparkSample


class Instead:
    """The real thing, with some of its methods replaced: `Instead(s3, get_object=…)`."""

    def __init__(self, real: Any, **methods: Callable[..., Any]) -> None:
        self.real = real
        vars(self).update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


OUTPUT = "clean/2013-01/"
CSV = (
    b"year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,dest,"
    b"air_time,distance,hour,minute,time_hour\n"
    b"2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z\n"
    b"2013,1,1,517,515,late,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z\n"
)


def loaded(tables: Tables, path: TablePath) -> Table:
    table = tables.load(path)
    assert table is not None
    return table


def write_one_row(spark: SparkSession, job: Job[Any]) -> None:
    job.write(spark.range(1))


class NoSpark:
    version = "4"

    def begin(self, kind: JobKind) -> None:
        """There is nothing to boot."""

    def await_session(self, _input_bytes: int = 0) -> None:
        raise AssertionError("Spark is not needed")

    def sample(self) -> SparkSample:
        return SparkSample()
