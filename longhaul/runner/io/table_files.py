"""Entries of a table for Parquet files that Spark wrote, from their footers.

What a file's partition is follows from its statistics: see `longhaul.runner.spark.frames`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, partition_record_value
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.transforms import parse_transform
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
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from longhaul.core.errors import PermanentJobError
from longhaul.outputs.manifest import ColumnStatistics, TableFile
from longhaul.outputs.partitions import PartitionBy
from longhaul.runner.io.field_ids import write_ids

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData
    from pyiceberg.io.pyarrow import DataFileStatistics, StatisticsCollector

_PARTS: Final = {
    "size": "column_sizes",
    "values": "value_counts",
    "nulls": "null_value_counts",
    "nans": "nan_value_counts",
    "lower": "lower_bounds",
    "upper": "upper_bounds",
}


def require_partitions(partition_by: Sequence[PartitionBy], columns: Schema) -> None:
    """Raises PermanentJobError unless the columns are there, once, and of a type for that."""
    for by in partition_by:
        if partition_by.count(by) > 1:
            raise PermanentJobError(f"output: partition_by {by}: it is named twice")
        found = next((field for field in columns.fields if field.name == by.column), None)
        if found is None:
            raise PermanentJobError(f"output: partition_by {by}: the job writes no such column")
        kind: IcebergType = found.field_type
        times = (
            (TimestampType, TimestamptzType)
            if by.transform == "hour"
            else (*(DateType, TimestampType, TimestamptzType),)
        )
        fits = (
            isinstance(kind, PrimitiveType)
            and not isinstance(kind, (FloatType, DoubleType, BinaryType))
            if by.transform == "identity"
            else isinstance(kind, times)
        )
        if not fits:
            raise PermanentJobError(f"output: partition_by {by}: a {kind} cannot be used like this")


def describe(
    files: Iterable[Path],
    columns: Schema,
    partition_by: tuple[PartitionBy, ...],
    folder: str,
    without_null: Collection[str] = (),
) -> list[tuple[Path, TableFile]]:
    """Each file that has rows, with its entry; the field ids of `columns` get into its footer.

    `folder` is where the files go, below the table's location; their names are made here.
    `without_null`: columns that are known to hold no null. The footer of a file with a very long
    text does not say it.

    Raises:
        PermanentJobError: a file's rows are not of one partition, as far as it can be seen, or its
            times are not those of tables.
    """
    # Only the runner's image has pyarrow.
    import pyarrow.parquet as pq  # noqa: PLC0415
    from pyiceberg.io.pyarrow import (  # noqa: PLC0415
        compute_statistics_plan,
        parquet_path_to_id_mapping,
    )

    plan, ids = compute_statistics_plan(columns, {}), parquet_path_to_id_mapping(columns)
    fields = _partition_fields(columns, partition_by)
    filled = {field.field_id for field in columns.fields if field.name in without_null}
    described: list[tuple[Path, TableFile]] = []
    for file in files:
        footer = pq.read_metadata(file)
        if footer.num_rows == 0:
            continue
        _require_own_calendar(footer)
        write_ids(file, columns)
        found = _statistics_of(footer, plan, ids)
        partition = tuple(_value(field, found, columns, footer.num_rows) for field in fields)
        entry = TableFile(
            path=f"{folder}{len(described):05d}.parquet",
            size=file.stat().st_size,
            rows=footer.num_rows,
            partition=partition,
            columns=_statistics(found.to_serialized_dict(), filled),
            split_offsets=tuple(found.split_offsets),
        )
        described.append((file, entry))
    return described


def _require_own_calendar(footer: "FileMetaData") -> None:
    """Raises PermanentJobError for times that readers of tables would take for others."""
    columns = map(footer.schema.column, range(len(footer.schema)))
    is_legacy = any(name.startswith(b"org.apache.spark.legacy") for name in footer.metadata or ())
    if is_legacy or any(column.physical_type == "INT96" for column in columns):
        raise PermanentJobError(
            "output: a table has no times of the LEGACY calendar, and none as INT96: leave"
            " spark.sql.parquet.datetimeRebaseModeInWrite and outputTimestampType as they are"
        )


def _statistics(raw: dict[str, Any], filled: Collection[int]) -> dict[int, ColumnStatistics]:
    return {
        column_id: ColumnStatistics(
            **({"nulls": 0} if column_id in filled else {})
            | {
                ours: raw[theirs][column_id]
                for ours, theirs in _PARTS.items()
                if column_id in (raw[theirs] or {})
            }
        )
        for column_id in raw["column_sizes"]
    }


def _partition_fields(
    columns: Schema, partition_by: tuple[PartitionBy, ...]
) -> list[PartitionField]:
    return [
        PartitionField(
            source_id=columns.find_field(by.column).field_id,
            field_id=PARTITION_FIELD_ID_START + n,
            transform=parse_transform(by.transform),
            name=by.column,
        )
        for n, by in enumerate(partition_by)
    ]


def _value(
    field: PartitionField, found: "DataFileStatistics", columns: Schema, rows: int
) -> bytes | None:
    """The partition's value of a file, in Iceberg's binary form: its least is its greatest."""
    source = columns.find_field(field.source_id)
    nulls = found.null_value_counts.get(field.source_id)
    if nulls == rows:
        return None
    seen = found.column_aggregates.get(field.source_id)
    transform = field.transform.transform(source.field_type)
    ends = (seen.current_min, seen.current_max) if seen and nulls == 0 else ()
    low, high = [transform(partition_record_value(field, end, columns)) for end in ends] or (
        None,
    ) * 2
    if low is None:
        raise PermanentJobError(
            f"output: column {source.name} cannot part the rows: its values are too long,"
            " or in years before 1 or after 9999"
        )
    if low != high:
        raise PermanentJobError(
            f"output: column {source.name} cannot part the rows: a file has several of its values"
        )
    result = field.transform.result_type(source.field_type)
    if not isinstance(result, PrimitiveType):
        raise TypeError(f"partition of {result}")
    return to_bytes(result, low)


def _statistics_of(
    footer: Any,  # noqa: ANN401 - pyarrow's FileMetaData
    plan: Mapping[int, "StatisticsCollector"],
    ids: Mapping[str, int],
) -> "DataFileStatistics":
    """A file's statistics. A column has bounds only if each of its row groups has usable ones.

    pyiceberg takes the bounds of those that have some for those of the file, and Python's `max`
    over a NaN depends on the order: readers would leave out files that hold what they look for.
    """
    from pyiceberg.io.pyarrow import (  # noqa: PLC0415
        MetricModeTypes,
        MetricsMode,
        data_file_statistics_from_parquet_metadata,
    )

    counts = MetricsMode(MetricModeTypes.COUNTS)
    counted = {each: replace(plan[each], mode=counts) for each in _without_bounds(footer, ids)}
    return data_file_statistics_from_parquet_metadata(footer, {**plan, **counted}, dict(ids))


def _without_bounds(footer: Any, ids: Mapping[str, int]) -> set[int]:  # noqa: ANN401 - as above
    """The columns whose least or greatest value does not follow from the footer."""
    return {
        ids[chunk.path_in_schema]
        for group in range(footer.num_row_groups)
        for chunk in map(footer.row_group(group).column, range(footer.num_columns))
        if not _has_bounds(chunk)
    }


def _has_bounds(chunk: Any) -> bool:  # noqa: ANN401 - pyarrow's ColumnChunkMetaData
    """Whether the least and the greatest value of a column in a row group are known.

    One that has a NaN has it as its greatest, in Spark's files. Of nulls alone there is neither.
    """
    found = chunk.statistics
    if found is None:
        return True  # pyiceberg leaves out the column itself
    if not found.has_min_max:
        return bool(found.has_null_count and found.null_count == chunk.num_values)
    try:
        ends = found.min, found.max
    except OverflowError:  # Spark's years go beyond 1 to 9999, and so do Iceberg's, not Python's
        return False
    except NotImplementedError:  # of pyarrow; pyiceberg leaves out the column itself
        return True
    return all(each == each for each in ends)  # noqa: PLR0124 - a NaN is not


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
