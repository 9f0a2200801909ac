"""One SELECT over the inputs. Each is a view under its name.

Columns of CSV and of folders are texts, unless `columns`, or the job of Longhaul that wrote them,
says their types: what a value looks like is no type (`12D`, `00501`, `08:15`).

The query reads nothing else and calls listed functions only: see `_select_only`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import Field
from pyspark.sql import DataFrame, SparkSession

from longhaul.catalogue._select_only import (
    OF_QUERIES,
    analysis_errors,
    require_select,
    restricted_session,
)
from longhaul.catalogue._text_files import TextInput, broken_inputs, whole_texts
from longhaul.job import Format, Input, Job, PermanentJobError
from longhaul.job import Params as BaseParams
from longhaul.outputs.partitions import column_of
from longhaul.runner.io.frame import READ_CSV
from longhaul.runner.spark.reading import columns_alone, typed

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
    columns: dict[str, str] = Field(default_factory=dict)
    """Types of inputs' columns that are texts, those of CSV and of folders: `n INT, at DATE`."""


def run(spark: SparkSession, job: Job[Params]) -> None:
    params = job.params
    require_views(job.inputs)
    if unknown := params.columns.keys() - job.inputs.keys():
        raise PermanentJobError(f"params.columns: there is no input {min(unknown)!r}")
    session = restricted_session(spark)
    texts = []
    for name in job.inputs:
        path = job.input(name)
        # Looked at when it is there: it may have been replaced on its way.
        format_ = params.input_formats.get(name) or format_of(name, job.inputs[name])
        given = types_of(session, name, params.columns[name]) if name in params.columns else {}
        with analysis_errors(f"input {name!r}"):
            frame, files = read(session, name, path, format_, {**job.inputs[name].types, **given})
            frame.createOrReplaceTempView(name)
        if files:
            texts.append(files)
        require_types(name, frame, given)
    require_select(session, params.query, job.inputs)
    with analysis_errors("params.query", OF_QUERIES):
        result = session.sql(params.query)
    asked = params.partition_by
    missing = [each for each in asked if not {each, column_of(each)} & set(result.columns)]
    if missing:
        raise PermanentJobError(
            f"params.partition_by: the query has no column {', '.join(missing)}"
        )
    job.progress("running the query")
    with analysis_errors("the result of params.query"), broken_inputs(texts):
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


def read(
    spark: SparkSession, name: str, path: str, format_: Format, types: Mapping[str, str]
) -> tuple[DataFrame, TextInput | None]:
    """An input with these types of columns that are texts, and its files if all of it is text."""
    reader, texts = spark.read.format(format_), None
    if format_ in ("csv", "json"):
        texts = whole_texts(spark, name, path, format_)
        corrupt = "columnNameOfCorruptRecord"
        reader = reader.options(mode="FAILFAST", **{corrupt: READ_CSV[corrupt]})
    if format_ == "csv":
        reader = reader.options(**READ_CSV)
    with broken_inputs([texts] if texts else []):
        frame = columns_alone(reader, path)
    return typed(frame, types, name=name, names_file=format_ == "csv"), texts


def require_types(name: str, frame: DataFrame, asked: Mapping[str, str]) -> None:
    """Raises PermanentJobError for a column that is not there, or was no text."""
    found = {column.lower(): type_ for column, type_ in frame.dtypes}
    for column, type_ in asked.items():
        if column.lower() not in found:
            raise PermanentJobError(f"params.columns: input {name!r} has no column {column!r}")
        if (there := found[column.lower()]) != type_:
            raise PermanentJobError(
                f"params.columns: column {column!r} of input {name!r} is {there} in its files, and"
                " no text: cast it in the query"
            )


def types_of(spark: SparkSession, name: str, ddl: str) -> dict[str, str]:
    """Name and type of each column that a parameter describes, as in `at TIMESTAMP, n INT`."""
    session = spark._jsparkSession.sessionState()  # noqa: SLF001 - PySpark has no public way
    with analysis_errors(f"params.columns of input {name!r}"):
        schema = session.sqlParser().parseTableSchema(ddl)
    return {field.name(): field.dataType().sql().lower() for field in schema.fields()}
