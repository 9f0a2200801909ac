"""One SELECT over the inputs. Each is a view under its name.

The query reads nothing else and calls listed functions only: see `_select_only`.
"""

from typing import Final

from pydantic import Field
from pyspark.sql import DataFrame, SparkSession

from jobs.catalogue._select_only import query_errors, require_select, restricted_session
from longhaul.domain.tables import column_of
from longhaul.job import Format, Input, Job, PermanentJobError
from longhaul.job import Params as BaseParams

_FORMATS: Final[dict[str, Format]] = {
    "parquet": "parquet",
    "csv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "orc": "orc",
}


class Params(BaseParams):
    query: str = Field(min_length=1)
    format: Format = "parquet"
    partition_by: tuple[str, ...] = ()
    input_formats: dict[str, Format] = Field(default_factory=dict)
    """Formats of inputs whose files have no telling extension."""


def run(spark: SparkSession, job: Job[Params]) -> None:
    params = job.params
    session = restricted_session(spark)
    for name, staged in job.inputs.items():
        path, format_ = job.input(name), params.input_formats.get(name) or format_of(name, staged)
        read(session, path, format_).createOrReplaceTempView(name)
    require_select(session, params.query, job.inputs)
    with query_errors():
        result = session.sql(params.query)
    asked = params.partition_by
    missing = [each for each in asked if not {each, column_of(each)} & set(result.columns)]
    if missing:
        raise PermanentJobError(
            f"params.partition_by: the query has no column {', '.join(missing)}"
        )
    job.progress("running the query")
    rows = job.write(result, format=params.format, partition_by=params.partition_by)
    job.progress(f"{rows} rows")


def format_of(name: str, staged: Input) -> Format:
    """The format of an input, by the extension of its files.

    Raises:
        PermanentJobError: unknown, missing or mixed extensions.
    """
    formats = {_FORMATS.get(extension) for extension in staged.extensions}
    (only,) = formats if len(formats) == 1 else (None,)
    if only is None:
        found = ", ".join(sorted(extension or "none" for extension in staged.extensions))
        raise PermanentJobError(
            f"input {name!r}: cannot tell the format from these extensions: {found}; say it in"
            " params.input_formats"
        )
    return only


def read(spark: SparkSession, path: str, format_: Format) -> DataFrame:
    reader = spark.read
    if format_ == "csv":
        reader = reader.option("header", value=True).option("inferSchema", value=True)
    return reader.format(format_).load(path)
