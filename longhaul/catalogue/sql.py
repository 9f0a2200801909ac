"""One SELECT over the inputs. Each is a view under its name.

The query reads nothing else and calls listed functions only: see `_select_only`.
"""

import csv
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import unquote

from pydantic import Field
from pyspark.sql import DataFrame, SparkSession

from longhaul.catalogue._select_only import (
    analysis_errors,
    query_errors,
    require_select,
    restricted_session,
)
from longhaul.domain.tables import column_of
from longhaul.job import Format, Input, Job, PermanentJobError
from longhaul.job import Params as BaseParams
from longhaul.runner.io.text_options import READ_CSV
from longhaul.runner.spark.reading import columns_alone

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
    require_views(job.inputs)
    session = restricted_session(spark)
    for name in job.inputs:
        path = job.input(name)
        # Looked at when it is there: it may have been replaced on its way.
        format_ = params.input_formats.get(name) or format_of(name, job.inputs[name])
        with analysis_errors(f"input {name!r}"):
            read(session, name, path, format_).createOrReplaceTempView(name)
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
    with analysis_errors("the result of params.query"):
        rows = job.write(result, format=params.format, partition_by=params.partition_by)
    job.progress(f"{rows} rows")


def require_views(names: Iterable[str]) -> None:
    """Raises PermanentJobError if two inputs would be one view: Spark's SQL ignores case."""
    by_view: dict[str, str] = {}
    for name in names:
        other = by_view.setdefault(name.lower(), name)
        if other != name:
            raise PermanentJobError(
                f"inputs {other!r} and {name!r} differ in case alone, and SQL ignores case:"
                " rename one of them"
            )


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


def read(spark: SparkSession, name: str, path: str, format_: Format) -> DataFrame:
    reader = spark.read.format(format_)
    if format_ == "csv":
        require_one_header(spark, name, path)
        reader = reader.options(**READ_CSV).option("inferSchema", value=True)
    return columns_alone(reader, path)


def require_one_header(spark: SparkSession, name: str, path: str) -> None:
    """Spark reads CSV by position, by the header of one file.

    Its own check (`enforceSchema`) does not do: it fails for columns without a name, such as the
    index that pandas writes, and sees the columns alone that the query takes.

    Raises:
        PermanentJobError: the files of an input have different columns, or in another order.
    """
    files = sorted(spark.read.text(path).inputFiles())
    if len(files) == 1:
        return
    # In S3 the time goes into waiting.
    with ThreadPoolExecutor(8, thread_name_prefix="headers") as pool:
        headers = zip(files, pool.map(lambda file: _header(spark, file), files), strict=True)
        found = [(file, header) for file, header in headers if header]
    for file, header in found[1:]:
        if header != found[0][1]:
            first, other = (_sent_name(each) for each in (found[0][0], file))
            raise PermanentJobError(
                f"input {name!r}: the header of {other} is not that of {first}: give files with"
                " other columns, or in another order, an input of their own"
            )


def _header(spark: SparkSession, file: str) -> list[str]:
    """The names of a file's columns, in any case; empty if it has no line.

    Read by the JVM, which reads S3 on a cluster, and unpacks what Spark unpacks.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no public way
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))
    streams = jvm.org.apache.spark.sql.execution.datasources.CodecStreams
    stream = streams.createInputStream(
        spark._jsparkSession.sessionState().newHadoopConf(),  # noqa: SLF001 - as above
        path,
    )
    reader = jvm.java.io.BufferedReader(jvm.java.io.InputStreamReader(stream, "UTF-8"))
    try:
        lines = iter(reader.readLine, None)  # without \r\n
        # Spark skips blank lines as well.
        line = next((text for each in lines if (text := each.removeprefix("\ufeff")).strip()), "")
    finally:
        reader.close()
    return next(csv.reader([line.lower()]), [])


def _sent_name(file: str) -> str:
    """The file's name as its sender knows it: staging puts numbers before."""
    return re.sub(r"^\d{5}-", "", unquote(file.rpartition("/")[2]))
