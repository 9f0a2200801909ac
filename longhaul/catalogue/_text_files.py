"""CSV and JSON of strangers: a broken file is refused, with its name and the line.

Spark reads on past most of what is wrong: bytes that are no UTF-8 become `�`, a quote that never
ends makes one value of the rest, and of a line of JSON only the first value counts. One look over
the lines finds the files that may be broken, at a fraction of the time that parsing takes. Rows of
a wrong length, and values that do not have their type, fail the query. Then the file is read once
more, to name the line.
"""

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from longhaul.job import PermanentJobError
from longhaul.runner.spark.reading import LONGEST_SHOWN, MISFIT, MISFIT_PARTS

# A partition of the input may have any other name.
_LINE: Final = "the line of a file"
# Two calls into the JVM for each.
_CHUNK_BYTES: Final = 1024 * 1024
_PACKED: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PAR1": "Parquet",
    b"ORC": "ORC",
}
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_MALFORMED: Final = re.compile(r"\[MALFORMED_|com\.univocity\.parsers")
# What looks for the columns, and names no file.
_INFERRING: Final = {"csv": "com.univocity.parsers", "json": "JsonInferSchema"}

T = TypeVar("T")

_FAILED_READ: Final = re.compile(
    r"\[FAILED_READ_FILE[^\]]*\] Encountered error while reading file (\S+)\. "
)


@dataclass(frozen=True)
class TextInput:
    """An input of CSV or JSON. `files` are named as Spark names them."""

    name: str
    format: str
    files: Sequence[str]


class _BrokenError(Exception):
    """What is wrong with a file, for people."""


def whole_texts(spark: SparkSession, name: str, path: str, format_: str) -> TextInput:
    """The files of an input.

    Raises:
        PermanentJobError: one of them is broken.
    """
    lines = spark.read.schema(f"`{_LINE}` string").option("lineSep", "\n").text(path)
    found = TextInput(name, format_, sorted(lines.inputFiles()))
    is_csv = format_ == "csv"
    line = F.col(f"`{_LINE}`")
    is_wrong = F.bool_or(~F.is_valid_utf8(line)) | (
        _has_odd_quotes(line) if is_csv else _is_no_json(line)
    )
    by_file = lines.groupBy(F.input_file_name().alias("file")).agg(
        is_wrong.alias("is_wrong"), F.bool_or(line.endswith("\r")).alias("has_cr")
    )
    with broken_inputs(spark, [found]):
        doubtful = by_file.where("is_wrong or has_cr").orderBy("file").collect()
    for file, is_wrong_, has_cr in doubtful:
        if is_wrong_:
            _look(spark, name, file, _LOOKS[format_])
        if has_cr and is_csv:
            _look(spark, name, file, _require_ends)
    return found


def _has_odd_quotes(line: Column) -> Column:
    """Each value in quotes has two, and each quote in it is doubled."""
    without = F.replace(line, F.lit('"'), F.lit(""))
    return F.sum(F.octet_length(line) - F.octet_length(without)) % 2 == 1


def _is_no_json(line: Column) -> Column:
    values = F.json_array_length(F.concat(F.lit("["), line, F.lit("]")))
    return F.bool_or(~F.equal_null(values, F.lit(1)) & (F.trim(line, F.lit(" \t\r")) != ""))


@contextmanager
def broken_inputs(spark: SparkSession, texts: Sequence[TextInput]) -> Iterator[None]:
    """Blame an input for what Spark raises about its rows.

    Raises:
        PermanentJobError: a file is broken, or a value does not have its column's type.
    """
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        problem = _problem(spark, texts, str(error))
        if problem is None:
            raise
    else:
        return
    raise problem


def _problem(
    spark: SparkSession, texts: Sequence[TextInput], message: str
) -> PermanentJobError | None:
    # A query may raise such a text too: only an input's own file is opened.
    by_file = {file: each for each in texts for file in each.files}
    if misfit := _misfit(message):
        name, file, column, type_, value = (misfit[each] for each in MISFIT_PARTS)
        place = f"input {name!r}"
        if file in by_file and by_file[file].format == "csv":
            line = _look(spark, name, file, partial(_line_of, column=column, value=value))
            place += f": {sent_name(file)}" + (f": line {line}" if line else "")
        return PermanentJobError(f"{place}: a value of column {column} is no {type_}")
    failed = _FAILED_READ.search(message)
    doubtful = [failed[1]] if failed else []
    if not failed:
        doubtful = [file for file, of in by_file.items() if _INFERRING[of.format] in message]
    for file in doubtful:
        if of := by_file.get(file):
            try:
                _look(spark, of.name, file, _LOOKS[of.format])
            except PermanentJobError as error:
                return error
            if failed and _MALFORMED.search(message):
                return PermanentJobError(
                    f"input {of.name!r}: {sent_name(file)}: Spark cannot read it as {of.format}"
                )
    return None


def _misfit(message: str) -> dict[str, str] | None:
    """What Spark said about a value that does not have its column's type."""
    _, is_said, text = message.partition(MISFIT)
    try:
        found, _ = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError:
        return None
    is_ours = isinstance(found, dict) and found.keys() == set(MISFIT_PARTS)
    return {key: str(value) for key, value in found.items()} if is_said and is_ours else None


def header_of(spark: SparkSession, name: str, file: str) -> list[str]:
    """The names of a file's columns, in any case; empty if it has no line.

    Raises:
        PermanentJobError: the file is broken.
    """
    return _look(spark, name, file, _header)


def sent_name(file: str) -> str:
    """The file's name as its sender knows it: staging puts numbers before."""
    return re.sub(r"^\d{5}-", "", unquote(file.rpartition("/")[2]))


def _look(spark: SparkSession, name: str, file: str, look: Callable[[Iterator[str]], T]) -> T:
    """What `look` finds in the lines of a file.

    Raises:
        PermanentJobError: the file is broken.
    """
    number = 0

    def counted(stream: io.BufferedReader) -> Iterator[str]:
        nonlocal number
        for number, line in enumerate(_decoded(stream), 1):  # noqa: B007 - used after an error
            yield line

    with _opened(spark, file) as stream:
        try:
            _require_plain(stream.peek(8)[:8])
            return look(counted(stream))
        except _BrokenError as error:
            problem = str(error)
        except UnicodeDecodeError:
            problem = f"line {number + 1} is no UTF-8: send it in UTF-8"
        except Py4JJavaError as error:
            problem = f"it cannot be read: {error.java_exception.getMessage()}"
    raise PermanentJobError(f"input {name!r}: {sent_name(file)}: {problem}")


def _require_plain(begin: bytes) -> None:
    for mark, format_ in _PACKED.items():
        if begin.startswith(mark):
            raise _BrokenError(f"it is {format_}: give it the extension that says so")
    if begin.startswith(_UTF_16) or b"\0" in begin:
        raise _BrokenError("it is in UTF-16: send it in UTF-8")


def _rows(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Each row of CSV with the line in which it begins. Blank lines are skipped, as by Spark."""
    csv.field_size_limit(sys.maxsize)
    rows, begins = csv.reader(lines, strict=True), 1
    try:
        for row in rows:
            if row:
                yield begins, row
            begins = rows.line_num + 1
    except csv.Error as error:
        if "end of data" in str(error):
            problem = "a quote that never ends"
        else:
            problem = "a quote within a value that is not doubled"
        raise _BrokenError(f"the row of line {begins} has {problem}") from error


def _header(lines: Iterator[str]) -> list[str]:
    ends: list[str] = []

    def seen() -> Iterator[str]:
        for line in lines:
            ends.append(_end_of(line))
            yield line

    found = (row for _, row in _rows(seen()) if any(map(str.strip, row)))
    header = [column.lower() for column in next(found, [])]
    # Spark goes by the first end of a line, even within quotes.
    if ends and ends[-1] not in ("", ends[0]):
        raise _BrokenError(f"line 1 ends with {ends[0]!r}, and the header with {ends[-1]!r}")
    return header


def _end_of(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _require_csv(lines: Iterator[str]) -> None:
    expected, ends, last = 0, "", ""

    def seen() -> Iterator[str]:
        nonlocal last
        for last in lines:  # noqa: UP028 - `last` is read below
            yield last

    for begins, row in _rows(seen()):
        expected = expected or len(row)
        if len(row) != expected:
            raise _BrokenError(f"line {begins} has {len(row)} values, and the header {expected}")
        end = _end_of(last)
        ends = ends or end
        if end not in ("", ends):
            raise _BrokenError(f"line {begins} ends with {end!r}, and the header with {ends!r}")


def _require_ends(lines: Iterator[str]) -> None:
    """Spark goes by the first end of a line: after LF alone the CR of CR LF is part of a value."""
    first = next(lines, "")
    if first.endswith("\n") and not first.endswith("\r\n"):
        _require_csv(chain([first], lines))


def _require_json(lines: Iterator[str]) -> None:
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line.strip() or "{}")
        except json.JSONDecodeError as error:
            raise _BrokenError(
                f"line {number} is not one JSON value: write each object on a line of its own"
            ) from error
        except RecursionError:  # Spark may read it
            continue
        if not isinstance(value, dict | list | None):
            raise _BrokenError(f"line {number} is no JSON object")


def _line_of(lines: Iterator[str], column: str, value: str) -> int | None:
    """The first line in which a column has this value; none if it has another name in the file."""
    rows = _rows(lines)
    _, header = next(rows)
    places = [n for n, each in enumerate(header) if each.lower() == column.lower()]
    found = (begins for begins, row in rows for n in places if row[n][:LONGEST_SHOWN] == value)
    return next(found, None)


_LOOKS: Final[Mapping[str, Callable[[Iterator[str]], None]]] = {
    "csv": _require_csv,
    "json": _require_json,
}


def _decoded(stream: io.BufferedReader) -> Iterator[str]:
    """The lines of UTF-8, with their ends."""
    for number, line in enumerate(stream):
        text = line.decode("utf-8-sig" if number == 0 else "utf-8")
        yield from io.StringIO(text, newline="")


@contextmanager
def _opened(spark: SparkSession, file: str) -> Iterator[io.BufferedReader]:
    """By the JVM, which reads S3 on a cluster, and unpacks what Spark unpacks."""
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no public way
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))
    streams = jvm.org.apache.spark.sql.execution.datasources.CodecStreams
    stream = streams.createInputStream(
        spark._jsparkSession.sessionState().newHadoopConf(),  # noqa: SLF001 - as above
        path,
    )
    try:
        yield io.BufferedReader(_JavaStream(stream), _CHUNK_BYTES)
    finally:
        stream.close()


class _JavaStream(io.RawIOBase):
    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - of Java
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable memory
        content = self._stream.readNBytes(len(buffer))
        buffer[: len(content)] = content
        return len(content)
