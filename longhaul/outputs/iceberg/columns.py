"""The columns of an output beside those of its table.

Columns that the table lacks are added, and types widened where Iceberg allows it. None of the
table's own becomes optional or goes away.
"""

from collections.abc import Collection, Iterator

from pyiceberg.exceptions import ValidationError
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)

from longhaul.outputs.iceberg.catalog import OccupiedError

_WIDER = {(IntegerType(), LongType()), (FloatType(), DoubleType())}


def evolve(transaction: Transaction, written: Schema, without_null: Collection[str]) -> None:
    """Make room in the table for the written columns.

    `without_null`: the columns that hold no null. A table's NOT NULL column must be one of them.

    Raises:
        OccupiedError: a column is of another kind than the table's.
    """
    schema = transaction.table_metadata.schema()
    _require_fit(written.as_struct(), schema.as_struct(), "")
    must = {column.name for column in schema.fields if column.required}
    for name in sorted(must.difference(without_null)):
        raise OccupiedError(f"column {name} is NOT NULL in the table, and the output lacks values")
    there = {column.name: column.field_type for column in schema.fields}
    changing = [
        # Otherwise the union would take NOT NULL out of the table without a word.
        column.model_copy(update={"required": column.name in must})
        for column in written.fields
        if column.name not in there or not _is_within(column.field_type, there[column.name])
    ]
    # pyiceberg looks at the whole table for each column: at 2,000 that takes half a minute.
    if not changing:
        return
    promised = Schema(*changing)
    try:
        with transaction.update_schema() as update:
            update.union_by_name(promised)
    except (ValidationError, ValueError) as error:
        raise OccupiedError(f"the columns do not fit the table's: {error}") from error
    evolved = transaction.table_metadata.schema()
    for path in schema.column_names:
        if schema.find_field(path).required and not evolved.find_field(path).required:
            raise OccupiedError(
                f"column {path} is NOT NULL in the table, and optional in the output"
            )


def with_ids(written: Schema, schema: Schema) -> Schema:
    """The written columns with the field ids of the table's, which has them all."""
    return Schema(*_numbered_fields(written.as_struct(), schema.as_struct()))


def require_same_ids(written: Schema, schema: Schema) -> None:
    """Raises OccupiedError unless the table's columns have the field ids that are in the files.

    Another job may have added columns since they were chosen, or somebody renamed one.
    """
    for path in written.column_names:
        if schema.find_field(path).field_id != written.find_field(path).field_id:
            raise OccupiedError(f"the table's columns changed since the upload began: {path}")


def _require_fit(ours: IcebergType, theirs: IcebergType, path: str) -> None:
    match ours, theirs:
        case StructType(), StructType():
            there = {field.name.lower(): field for field in theirs.fields}
            for field in ours.fields:
                other = there.get(field.name.lower())
                if other is None:
                    continue
                if other.name != field.name:
                    raise OccupiedError(
                        f"column {path}{field.name} differs from the table's {path}{other.name} in"
                        " case alone"
                    )
                _require_fit(field.field_type, other.field_type, f"{path}{field.name}.")
        case ListType(), ListType():
            _require_fit(ours.element_type, theirs.element_type, f"{path}element.")
        case MapType(), MapType():
            _require_fit(ours.key_type, theirs.key_type, f"{path}key.")
            _require_fit(ours.value_type, theirs.value_type, f"{path}value.")
        case _ if not _is_promoted(ours, theirs):
            raise OccupiedError(
                f"column {path[:-1]} is {theirs} in the table, and {ours} in the output"
            )


def _is_within(ours: IcebergType, theirs: IcebergType) -> bool:
    """Whether the table's type, which fits, takes the values as it is."""
    match ours, theirs:
        case StructType(), StructType():
            there = {field.name: field for field in theirs.fields}
            return all(
                field.name in there and _is_part_within(field, there[field.name])
                for field in ours.fields
            )
        case ListType(), ListType():
            return _is_part_within(ours.element_field, theirs.element_field)
        case MapType(), MapType():
            return _is_part_within(ours.key_field, theirs.key_field) and _is_part_within(
                ours.value_field, theirs.value_field
            )
        case DecimalType(), DecimalType():
            return ours.precision <= theirs.precision
        case _:
            return ours == theirs or (ours, theirs) in _WIDER


def _is_part_within(ours: NestedField, theirs: NestedField) -> bool:
    return (ours.required or not theirs.required) and _is_within(ours.field_type, theirs.field_type)


def _is_promoted(one: IcebergType, other: IcebergType) -> bool:
    """Whether they are the same, or Iceberg widens one into the other."""
    if isinstance(one, DecimalType) and isinstance(other, DecimalType):
        return one.scale == other.scale
    return one == other or (one, other) in _WIDER or (other, one) in _WIDER


def _numbered_fields(ours: StructType, theirs: StructType) -> Iterator[NestedField]:
    there = {field.name: field for field in theirs.fields}
    return (
        NestedField(
            field_id=there[field.name].field_id,
            name=field.name,
            field_type=_numbered(field.field_type, there[field.name].field_type),
        )
        for field in ours.fields
    )


def _numbered(ours: IcebergType, theirs: IcebergType) -> IcebergType:
    match ours, theirs:
        case StructType(), StructType():
            return StructType(*_numbered_fields(ours, theirs))
        case ListType(), ListType():
            return ListType(
                element_id=theirs.element_id,
                element_type=_numbered(ours.element_type, theirs.element_type),
                element_required=False,
            )
        case MapType(), MapType():
            return MapType(
                key_id=theirs.key_id,
                key_type=_numbered(ours.key_type, theirs.key_type),
                value_id=theirs.value_id,
                value_type=_numbered(ours.value_type, theirs.value_type),
                value_required=False,
            )
        case _:
            return ours
