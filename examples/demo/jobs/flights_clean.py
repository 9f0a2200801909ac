"""From flights as CSV (input `flights`) to typed Parquet by year and month.

Bad rows go to `quarantine/`, each with the first rule that it breaks.
"""

from typing import Final

from py4j.protocol import Py4JJavaError
from pydantic import Field
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses
from pyspark.sql.types import StringType, StructField, StructType

from longhaul.job import Job, PermanentJobError
from longhaul.job import Params as BaseParams

TYPES: Final = {
    "year": "int",
    "month": "int",
    "day": "int",
    "dep_time": "int",
    "sched_dep_time": "int",
    "dep_delay": "int",
    "arr_time": "int",
    "sched_arr_time": "int",
    "arr_delay": "int",
    "carrier": "string",
    "flight": "int",
    "tailnum": "string",
    "origin": "string",
    "dest": "string",
    "air_time": "int",
    "distance": "int",
    "hour": "int",
    "minute": "int",
    "time_hour": "timestamp",
}
"""The columns, in the order of the CSV, with the type of the clean ones."""

SCHEMA: Final = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())

# Cancelled flights have no times, and some planes no tail number. All other columns are required.
_NULLABLE: Final = {"dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "tailnum"}
_RANGES: Final = {"month": (1, 12), "day": (1, 31), "hour": (0, 23), "minute": (0, 59)}
_KINDS: Final = {"int": "a whole number", "timestamp": "a time"}
# Spark also takes `10:00` for a time: of today.
_FORMS: Final = {"int": "", "timestamp": r"^\s*\d{4}-"}
_LINE: Final = "line"
_FILE: Final = "file"
_REASON: Final = "reason"


class Params(BaseParams):
    max_bad_fraction: float = Field(default=1.0, ge=0, le=1)
    """More bad rows than this share of all make the whole input bad."""


def run(spark: SparkSession, job: Job[Params]) -> None:
    checked = check(read(spark, job.input("flights")))
    checked.persist()  # two outputs of one reading
    job.progress("writing clean rows")
    try:
        clean_rows = job.write(clean(checked), partition_by=["year", "month"])
    except (Py4JJavaError, PySparkException) as error:
        if "CSV header does not conform to the schema" not in str(error):
            raise
        raise PermanentJobError(
            f"input 'flights': the header of a file is not {','.join(TYPES)}"
        ) from error
    job.progress("writing bad rows")
    bad_rows = job.write(quarantine(checked), "quarantine", format="json")
    checked.unpersist()
    if bad_rows > job.params.max_bad_fraction * (clean_rows + bad_rows):
        raise PermanentJobError(
            f"{bad_rows} of {clean_rows + bad_rows} rows are bad, more than"
            f" max_bad_fraction={job.params.max_bad_fraction}"
        )
    job.progress(f"{clean_rows} rows clean, {bad_rows} quarantined")


def read(spark: SparkSession, path: str) -> DataFrame:
    """Every column as text, so that no value is lost before its check.

    `line` holds a row with too many or too few values.
    """
    texts = StructType([StructField(name, StringType()) for name in (*TYPES, _LINE)])
    return (
        spark.read.schema(texts)
        .option("header", value=True)
        .option("enforceSchema", value=False)  # another header is an error, not other columns
        .option("escape", '"')  # RFC 4180, as all but Spark write it
        .option("nullValue", "NA")
        .option("columnNameOfCorruptRecord", _LINE)
        # Otherwise a short row is noticed only when a missing column is read.
        .option("columnPruning", value=False)
        .csv(path)
        .select("*", _sent_name(F.col("_metadata.file_name")).alias(_FILE))
    )


def _sent_name(name: Column) -> Column:
    """The file's name as its sender knows it: staging puts numbers before, and Spark encodes it."""
    encoded = F.replace(name, F.lit("+"), F.lit("%2B"))  # else it would be decoded to a space
    return F.regexp_replace(F.url_decode(encoded), r"^\d{5}-", "")


def check(raw: DataFrame) -> DataFrame:
    """Add `reason`: the first rule that the row breaks, or null."""
    return raw.withColumn(_REASON, F.coalesce(*_problems()))


def clean(checked: DataFrame) -> DataFrame:
    """The good rows, typed.

    One file for each month; `rebalance` splits only months that are too large for one.
    """
    good = checked.where(F.col(_REASON).isNull())
    return good.select(
        *(F.col(name).try_cast(type_).alias(name) for name, type_ in TYPES.items())
    ).hint("rebalance", "year", "month")


def quarantine(checked: DataFrame) -> DataFrame:
    """The bad rows unchanged, with the reason and the file."""
    bad = checked.where(F.col(_REASON).isNotNull())
    return bad.select(_REASON, _FILE, _LINE, *TYPES).coalesce(1)


def _problems() -> list[Column]:
    """One expression for each rule, in order: its sentence if the row breaks it, else null."""
    problems = [F.when(F.col(_LINE).isNotNull(), F.lit(f"row: not {len(TYPES)} columns"))]
    for name, type_ in TYPES.items():
        text, value = F.col(name), F.col(name).try_cast(type_)
        if name not in _NULLABLE:
            problems.append(F.when(text.isNull() | (F.trim(text) == ""), F.lit(f"{name}: missing")))
        if type_ in _KINDS:
            fits = value.isNotNull() & text.rlike(_FORMS[type_])
            problems.append(F.when(text.isNotNull() & ~fits, F.lit(f"{name}: not {_KINDS[type_]}")))
        if name in _RANGES:
            low, high = _RANGES[name]
            problems.append(
                F.when(~value.between(low, high), F.lit(f"{name}: not in {low} to {high}"))
            )
    whole = {name: F.col(name).try_cast("int") for name in ("year", "month", "day", "distance")}
    date = F.concat_ws("-", whole["year"], whole["month"], whole["day"]).try_cast("date")
    problems.append(F.when(date.isNull(), F.lit("day: no such date")))
    problems.append(F.when(whole["distance"] <= 0, F.lit("distance: not above 0")))
    return problems
