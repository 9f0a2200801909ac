"""Reads files of strangers: what they say besides their columns does not count."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame, DataFrameReader
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from longhaul.runner.spark.frames import quoted

# Names of collations: a part of the types, which Spark keeps among the metadata.
_COLLATIONS: Final = "__COLLATIONS"

# Spark's casts take more, and lose it: a time after a date, a year of six digits, an offset, digits
# of a fraction, and `12D` for a double.
_DAY: Final = r"([0-9]{4}|[+-][0-9]{4,7})-[0-9]{1,2}-[0-9]{1,2}"
_TIME: Final = r"[T ][0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}(\.[0-9]{1,6}0*)?)?"
_NUMBER: Final = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:nan|[+-]?inf(inity)?)"
_SHAPES: Final = {
    "date": _DAY,
    "timestamp": rf"{_DAY}({_TIME}( ?[A-Za-z+-]\S*)?)?",
    "timestamp_ntz": rf"{_DAY}({_TIME})?",
    "double": _NUMBER,
    "float": _NUMBER,
}
_DECIMAL: Final = re.compile(r"decimal\(\d+,\s*(\d+)\)")


def typed(
    frame: DataFrame, types: Mapping[str, str], *, name: str, names_file: bool = False
) -> DataFrame:
    """Give columns of texts these types, by their names in any case.

    A text that does not fit fails the query. `names_file`: the error has the file, and a filter of
    a column leaves out no folders.
    """
    file = F.concat(F.input_file_name(), F.lit(": ")) if names_file else F.lit("")
    known = {column.lower(): type_ for column, type_ in types.items()}
    texts = {
        column
        for column, type_ in frame.dtypes
        if type_ == "string" and known.get(column.lower(), "string") != "string"
    }
    if not texts:
        return frame
    return frame.select(
        *(
            _fitted(name, file, column, known[column.lower()])
            if column in texts
            else F.col(quoted(column))
            for column in frame.columns
        )
    )


def _fitted(name: str, file: Column, column: str, type_: str) -> Column:
    text = F.col(quoted(column))
    value = text.try_cast(type_)
    if shape := _SHAPES.get(type_):
        value = F.when(text.rlike(rf"^\s*({shape})\s*$"), value)
    if type_ in ("double", "float"):
        is_infinite = value.isin(float("inf"), float("-inf")) & text.rlike("[0-9]")
        is_lost = (value == 0) & text.rlike("^[^eE]*[1-9]")
        value = F.when(~(is_infinite | is_lost), value)
    elif scale := _DECIMAL.fullmatch(type_):
        number = F.concat(text, F.lit("e0"))
        places = F.length(F.regexp_extract(number, r"\.([0-9]*?)0*\s*[eE]", 1))
        exponent = F.regexp_extract(number, "[eE]([+-]?[0-9]+)", 1).try_cast("int")
        value = F.when(places - exponent <= int(scale[1]), value)
    about = F.concat(
        F.lit(f"input {name!r}: "), file, F.lit(f"a value of column {column} is no {type_}")
    )
    return F.coalesce(value, F.when(text != "", F.raise_error(about))).alias(column)


def columns_alone(reader: DataFrameReader, path: str) -> DataFrame:
    """Read with the columns that Spark finds, and nothing else that a file's footer says of them.

    A Parquet footer may hold a default for a column. Spark evaluates it for each file that lacks
    the column, with every function that it has and none of a session's limits.

    A partition column whose values are all null gets the type string: Spark finds none, could not
    read ORC with it, and could write the column nowhere.
    """
    frame = reader.load(path)
    found = json.loads(frame._jdf.schema().json())  # noqa: SLF001 - PySpark would unpickle types
    plain = _plain(found)
    if plain == found:  # as nearly always: the files are listed once
        return frame
    types: Any = reader._spark._jvm.org.apache.spark.sql.types  # type: ignore[union-attr]  # noqa: SLF001 - as above
    schema = types.DataType.fromJson(json.dumps(plain))
    reader._jreader.schema(schema)  # noqa: SLF001 - takes a schema of the JVM
    return reader.load(path)


def _plain(described: Any) -> Any:  # noqa: ANN401 - JSON of a schema
    match described:
        case {"type": "udt", "sqlType": type_}:
            return _plain(type_)
        case "void":
            return "string"
        case dict():
            return {key: _plain_part(key, value) for key, value in described.items()}
        case list():
            return [_plain(each) for each in described]
    return described


def _plain_part(key: str, value: Any) -> Any:  # noqa: ANN401 - as above
    if key == "metadata":
        return {name: each for name, each in value.items() if name == _COLLATIONS}
    return value if key == "name" else _plain(value)
