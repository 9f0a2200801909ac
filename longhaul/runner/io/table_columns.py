"""The Iceberg columns of a DataFrame, from Spark's own schema: no look into files."""

from typing import Any, Final

from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from longhaul.core.errors import PermanentJobError

_PLAIN: Final[dict[str, IcebergType]] = {
    "boolean": BooleanType(),
    "byte": IntegerType(),
    "short": IntegerType(),
    "integer": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
}


def columns_of(schema: dict[str, Any]) -> Schema:
    """Of the JSON of a DataFrame's schema; every column is optional.

    What Spark calls not nullable is no promise for the rows of the next job.

    Raises:
        PermanentJobError: a table cannot hold a column, or has another with the same name.
    """
    return assign_fresh_schema_ids(Schema(*_fields(schema, "")))


def _fields(struct: dict[str, Any], above: str) -> list[NestedField]:
    seen: dict[str, str] = {}
    for field in struct["fields"]:
        name = str(field["name"])
        if other := seen.get(name.lower()):
            raise PermanentJobError(
                f"output: columns {above}{other} and {above}{name} differ in case alone, which no"
                " table can hold: rename one"
            )
        if "." in name:
            raise PermanentJobError(
                f"output: column {above}{name} has a dot in its name: rename it for a table"
            )
        seen[name.lower()] = name
    return [
        NestedField(
            field_id=n,
            name=field["name"],
            field_type=_type(field["type"], f"{above}{field['name']}"),
            required=False,
        )
        for n, field in enumerate(struct["fields"], 1)
    ]


def _type(described: Any, path: str) -> IcebergType:  # noqa: ANN401 - JSON
    match described:
        case {"type": "struct"}:
            return StructType(*_fields(described, f"{path}."))
        case {"type": "array", "elementType": element}:
            return ListType(1, _type(element, f"{path}.element"), element_required=False)
        case {"type": "map", "keyType": key, "valueType": value}:
            return MapType(
                *(1, _type(key, f"{path}.key"), 2, _type(value, f"{path}.value")),
                value_required=False,
            )
        case str() if described in _PLAIN:
            return _PLAIN[described]
        case str() if described.startswith("decimal("):
            precision, scale = map(int, described[8:-1].split(","))
            return DecimalType(precision, scale)
        case str() if described.startswith(("char(", "varchar(", "string")):
            return StringType()
    kind = described if isinstance(described, str) else described["type"]
    raise PermanentJobError(f"output: column {path}: a table has no type for Spark's {kind}")
