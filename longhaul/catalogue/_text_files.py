"""CSV and JSON of strangers: a broken file is refused by its name.

Spark reads on past most of what is wrong: bytes that are no UTF-8 become `�`, a quote that never
ends makes one value of the rest, and of a line of JSON only the first value counts. One look over
the lines finds the files that may be broken, at a fraction of the time that parsing takes. What it
cannot tell from a broken file is refused too. Rows of a wrong length, and values that do not have
their type, fail the query.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Final
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from longhaul.job import PermanentJobError

# A partition of the input may have any other name.
_LINE: Final = "the line of a file"
_LONGEST_HEADER: Final = 256 * 1024  # characters, of each file, in the driver
_VALUE: Final = r'("([^"\r]|"")*"|[^",\r]*)'
_HEADER: Final = re.compile(rf"\ufeff?{_VALUE}(,{_VALUE})*\r?")
_MISFIT: Final = re.compile(
    r"\[USER_RAISED_EXCEPTION\] (input '.*?': )(\S+:/\S+(?=: ))?(.* is no .*?)(?: SQLSTATE|\n|$)"
)
_FAILED_READ: Final = re.compile(
    r"\[FAILED_READ_FILE[^\]]*\] Encountered error while reading file (\S+)\. "
)
_INFERRING: Final = re.compile(r"CSVDataSource\$\S*infer|JsonInferSchema")
_BROKEN: Final = {
    r"\[MALFORMED_|com\.univocity\.parsers": (
        "a row has more or fewer values than the header, or a quote in a value is not doubled"
    ),
    r"java\.util\.zip\.|EOFException|(header|data) check": "it is not whole, or not packed so",
}
_NO_TEXT: Final = (
    "it is no text in UTF-8: send it in UTF-8, and a packed file with the extension that says so"
)
_NO_OBJECT: Final = (
    "a line is not one JSON object: write each on a line of its own, a tab in a text as \\t, and"
    " null for NaN and Infinity"
)


@dataclass(frozen=True)
class TextInput:
    """An input of CSV or JSON. `files` are named as Spark names them."""

    name: str
    format: str
    files: Sequence[str]

    def refusal(self, file: str, problem: str) -> PermanentJobError:
        where = f"{_sent_name(file)}: " if file else ""
        return PermanentJobError(f"input {self.name!r}: {where}{problem}")


def whole_texts(spark: SparkSession, name: str, path: str, format_: str) -> TextInput:
    """The files of an input.

    Raises:
        PermanentJobError: one of them is broken, or has not the header of the others.
    """
    texts = spark.read.schema(f"`{_LINE}` string").option("lineSep", "\n").text(path)
    found, line = TextInput(name, format_, texts.inputFiles()), F.col(f"`{_LINE}`")
    problem = F.when(~F.is_valid_utf8(line), _NO_TEXT)
    if format_ == "json":
        problem = problem.when(_is_no_object(line), _NO_OBJECT)
    lines = texts.select(
        line.alias("line"),
        F.struct("_metadata.file_block_start", F.monotonically_increasing_id()).alias("place"),
        F.input_file_name().alias("file"),
        problem.alias("problem"),
        line.endswith("\r").alias("has_cr"),
        (F.octet_length(line) - F.octet_length(F.replace(line, F.lit('"'), F.lit("")))).alias(
            "quotes"
        ),
    )
    by_file = lines.groupBy("file").agg(
        # With a set among them Spark needs no sort of all lines for the first.
        F.collect_set("problem"),
        F.min_by(F.substring("line", 1, _LONGEST_HEADER if format_ == "csv" else 1), "place"),
        # Spark goes by the first end of a line: after LF alone the CR of CR LF is part of a value.
        (F.bool_or("has_cr") & ~F.min_by("has_cr", "place")).alias("is_doubtful"),
        F.sum("quotes"),
    )
    with broken_inputs([found]):
        rows = by_file.orderBy("file").collect()
    doubtful = [row.file for row in rows if row.is_doubtful]
    mixed = _with_two_ends(lines, doubtful) if format_ == "csv" and doubtful else set()
    headers: dict[tuple[str, ...], str] = {}
    for file, problems, first, _, quotes in rows:
        if problems or "\0" in first:
            # Of two, that it is no text explains the other.
            raise found.refusal(file, max(problems, default=_NO_TEXT))
        if format_ == "csv" and (
            wrong := _wrong_in_csv(file, first, headers, is_mixed=file in mixed, quotes=quotes)
        ):
            raise found.refusal(file, wrong)
    return found


def _with_two_ends(lines: DataFrame, files: Sequence[str]) -> set[str]:
    """Those of the files in which CR LF ends a row, and not only a line within a quoted value."""
    before = F.sum("quotes").over(Window.partitionBy("file").orderBy("place"))
    ends = lines.where(F.col("file").isin(*files)).select(
        "file", (F.col("has_cr") & (before % 2 == 0)).alias("ends_a_row")
    )
    return {row.file for row in ends.where("ends_a_row").select("file").distinct().collect()}


def _is_no_object(line: Column) -> Column:
    values = F.json_array_length(F.concat(F.lit("["), line, F.lit("]")))
    is_value = F.equal_null(values, F.lit(1)) & line.rlike(r"^\s*[{\[][^\x00-\x1f]*\s*$")
    return ~is_value & line.rlike(r"\S")


def _wrong_in_csv(
    file: str, first: str, headers: dict[tuple[str, ...], str], *, is_mixed: bool, quotes: int
) -> str:
    """What is wrong with a file that begins with this line, and has so many quotes; or nothing."""
    if not (first.strip() and _HEADER.fullmatch(first)):
        return "its first line is not the header: write the names of all columns in one line"
    if is_mixed:
        return "its first line ends with LF, and another with CR LF: end all lines alike"
    if quotes % 2:
        return "a quote has no end: write a value with a quote in quotes, and the quote twice"
    columns = csv.reader([first.lstrip("\ufeff").rstrip("\r").lower()])
    headers.setdefault(tuple(*columns), file)
    # Spark reads by position, by the header of one file. Its own check (`enforceSchema`) fails for
    # columns without a name, such as the index that pandas writes.
    if len(headers) == 1:
        return ""
    return (
        f"its header is not that of {_sent_name(next(iter(headers.values())))}: give files with"
        " other columns, or in another order, an input of their own"
    )


@contextmanager
def broken_inputs(texts: Iterable[TextInput]) -> Iterator[None]:
    """Blame an input for what Spark raises about its rows.

    Raises:
        PermanentJobError: a file is broken, or a value does not have its column's type.
    """
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        problem = _problem(texts, str(error))
        if problem is None:
            raise
    else:
        return
    raise problem


def _problem(texts: Iterable[TextInput], message: str) -> PermanentJobError | None:
    if misfit := _MISFIT.search(message):
        name, file, problem = misfit.groups("")
        return PermanentJobError(f"{name}{_sent_name(file)}{problem}")
    failed = _FAILED_READ.search(message)
    # What looks for the columns, before there is a query, names no file.
    file = failed[1] if failed else ""
    is_looking = not failed and bool(_INFERRING.search(message))
    for input_, (pattern, problem) in product(texts, _BROKEN.items()):
        if (is_looking or file in input_.files) and re.search(pattern, message):
            is_csv = input_.format == "csv"
            return input_.refusal(file, problem if is_csv else "Spark cannot read it as JSON")
    return None


def _sent_name(file: str) -> str:
    """The file's name as its sender knows it: staging puts numbers before."""
    return re.sub(r"^\d{5}-", "", unquote(file.rpartition("/")[2]))
