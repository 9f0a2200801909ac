"""Reads files of strangers: what they say besides their columns does not count."""

import json
from typing import Any, Final

from pyspark.sql import DataFrame, DataFrameReader

# Names of collations: a part of the types, which Spark keeps among the metadata.
_COLLATIONS: Final = "__COLLATIONS"


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
    match key:
        case "metadata":
            return _only(_COLLATIONS, value)
        case "name":
            return value
    return _plain(value)


def _only(name: str, metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: metadata[name]} if name in metadata else {}
