"""What one publication commits to a table, entry by entry, and when it waits or gives up."""

import datetime as dt
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AssertTableUUID
from pyiceberg.types import (
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
)

from longhaul.core.errors import TimeUpError, TornOutputError, VoidCommitError
from longhaul.core.lease import AttemptId
from longhaul.core.places import TablePath
from longhaul.outputs.contention import conflict_wait_s
from longhaul.outputs.iceberg.catalog import OccupiedError, Tables
from longhaul.outputs.iceberg.columns import evolve, with_ids
from longhaul.outputs.iceberg.commits import (
    TablePublisher,
    commit_once,
)
from longhaul.outputs.manifest import ColumnStatistics, PendingTable, Switch, TableFile
from longhaul.outputs.partitions import PartitionBy
from simulation.aws.cloud import FakeAws
from tests.builders import there
from tests.contract.lake import Glue

ONE = ColumnStatistics(size=9, values=3, nulls=0, nans=0, lower=bytes(4), upper=b"\x07\0\0\0")
INTEGERS = Schema(NestedField(1, "n", IntegerType(), required=False))
LONGS = Schema(NestedField(1, "n", LongType(), required=False))


def a_file(path: str = "data/0.parquet", **changes: Any) -> TableFile:
    given = {"path": path, "size": 10, "rows": 3, "columns": {1: ONE}, "split_offsets": (4, 8)}
    return TableFile.model_validate({**given, **changes})


def pending(
    *files: TableFile, name: str = "t", columns: Schema = INTEGERS, **changes: Any
) -> PendingTable:
    given = {
        "database": "lake",
        "name": name,
        "location": f"s3://data/tables/lake/{name}",
        "mode": "append",
        "columns": columns.model_dump_json(),
        "files": files or (a_file(),),
    }
    return PendingTable.model_validate({**given, **changes})


class World:
    """A catalog without tables, and a publisher whose first commit may meet another's."""

    def __init__(self) -> None:
        self.fake = FakeAws()
        self.fake.s3.create_bucket(Bucket="data")
        self.fake.glue.create_database(DatabaseInput={"Name": "lake"})
        self.tables = Tables(lambda: self.fake.glue, self.fake.client("s3"), "data")

    def publish(
        self,
        job: str,
        *tables: PendingTable,
        until: dt.datetime | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> str:
        attempt = AttemptId(f"main#{job}", 1, 1)
        tables_of = self.tables
        if meanwhile:
            glue = Glue(self.fake.glue, 0, "", before=meanwhile)
            tables_of = Tables(lambda: glue, self.fake.client("s3"), "data")
        TablePublisher(tables_of, self.fake.clock).publish(attempt, tables, until, {})
        return attempt.token

    def switch(self, job: str, *tables: PendingTable) -> Switch:
        publisher = TablePublisher(self.tables, self.fake.clock)
        return publisher.switch(AttemptId(f"main#{job}", 1, 1).token, tables)

    def table(self, name: str = "t") -> Table:
        return there(self.tables.find(TablePath("lake", name)))

    def entries(self) -> list[DataFile]:
        table = self.table()
        snapshot = table.current_snapshot()
        return [
            entry.data_file
            for manifest in (snapshot.manifests(table.io) if snapshot else ())
            for entry in manifest.fetch_manifest_entry(table.io)
        ]

    def operations(self) -> list[Operation]:
        return [each.summary.operation for each in self.table().snapshots() if each.summary]


@pytest.fixture
def world() -> World:
    return World()


def test_an_entry_says_of_its_file_what_the_job_found(world: World) -> None:
    world.publish("a", pending())

    (entry,) = world.entries()
    assert (entry.content, entry.file_format) == (DataFileContent.DATA, FileFormat.PARQUET)
    assert entry.file_path == "s3://data/tables/lake/t/data/0.parquet"
    assert (entry.record_count, entry.file_size_in_bytes, entry.split_offsets) == (3, 10, [4, 8])
    assert (entry.column_sizes, entry.value_counts) == ({1: 9}, {1: 3})
    assert (entry.null_value_counts, entry.nan_value_counts) == ({1: 0}, {1: 0})
    assert (entry.lower_bounds, entry.upper_bounds) == ({1: bytes(4)}, {1: b"\x07\0\0\0"})


def test_bounds_have_the_type_that_the_table_has(world: World) -> None:
    world.publish("a", pending(columns=LONGS, mode="error", files=()))
    unknown = ColumnStatistics(size=9, upper=ONE.upper)

    world.publish("b", pending(a_file(), a_file("data/1.parquet", columns={1: unknown})))

    first, second = world.entries()
    assert (first.lower_bounds, first.upper_bounds) == ({1: bytes(8)}, {1: b"\x07" + bytes(7)})
    assert (second.lower_bounds, second.upper_bounds) == ({}, {1: b"\x07" + bytes(7)})


def test_a_list_with_other_partitions_than_its_table_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        World().publish("a", pending(partition_by=(PartitionBy(column="n"),)))


def test_a_partition_field_has_the_name_that_spark_gives_it_unless_it_is_taken(
    world: World,
) -> None:
    columns = Schema(
        NestedField(1, "at", DateType(), required=False),
        NestedField(2, "at_day", StringType(), required=False),
        NestedField(3, "n", IntegerType(), required=False),
    )
    by = (
        PartitionBy(column="at", transform="day"),
        PartitionBy(column="n"),
        PartitionBy(column="at", transform="month"),
    )
    values = [to_bytes(kind, 3) for kind in (DateType(), IntegerType(), IntegerType())]
    world.publish("a", pending(a_file(partition=values), columns=columns, partition_by=by))

    assert [each.name for each in world.table().spec().fields] == ["at_day_", "n", "at_month"]
    (entry,) = world.entries()
    assert [entry.partition[n] for n in range(3)] == [3, 3, 3]


def test_snapshots_say_whether_files_were_replaced(world: World) -> None:
    world.publish("a", pending())
    world.publish("b", pending(a_file("data/1.parquet")))
    since = world.table().metadata.current_snapshot_id
    world.publish("c", pending(a_file("d"), mode="overwrite", replaces_snapshot=since))

    assert world.operations() == [Operation.APPEND, Operation.APPEND, Operation.OVERWRITE]


def test_files_of_a_table_that_is_partitioned_by_its_only_column_are_replaced() -> None:
    world, by = World(), (PartitionBy(column="n"),)
    world.publish("a", pending(a_file(partition=[bytes(4)]), partition_by=by))
    since = world.table().metadata.current_snapshot_id
    new = a_file("data/1.parquet", partition=[bytes(4)])

    world.publish("b", pending(new, mode="overwrite", replaces_snapshot=since, partition_by=by))

    assert [each.file_path[-9:] for each in world.entries()] == ["1.parquet"]


def test_the_table_keeps_the_last_thousand_tokens(world: World) -> None:
    world.publish("a", pending())
    with world.table().transaction() as change:
        change.set_properties({"longhaul.published": " ".join(f"t{n}" for n in range(1_000))})

    token = world.publish("b", pending(a_file("b")))

    kept = world.table().metadata.properties["longhaul.published"].split()
    assert kept == [*(f"t{n}" for n in range(1, 1_000)), token]


def test_a_publication_is_due_until_it_is_done() -> None:
    world, output = World(), pending(mode="error")
    assert world.switch("a", output) is Switch.DUE

    world.publish("a", output)

    assert world.switch("a", output) is Switch.DONE
    with pytest.raises(VoidCommitError, match="another output"):
        world.switch("b", output)


def test_an_output_counts_as_replaced_only_where_all_its_tables_are(world: World) -> None:
    first, second = (pending(name=name, mode="overwrite") for name in ("t", "u"))
    world.publish("a", first)

    assert world.switch("b", first) is Switch.REPLACED
    assert world.switch("b", first, second) is Switch.DUE
    world.publish("b", first, second)
    assert world.switch("b", first, second) is Switch.DONE


def test_an_output_is_torn_where_one_of_its_tables_has_it_and_another_never_can() -> None:
    world, outputs = World(), (pending(name="u"), pending(mode="error"))
    world.publish("b", outputs[0])
    world.publish("a", outputs[1])

    with pytest.raises(TornOutputError, match="lake/u is published, and table://lake/t can not"):
        world.switch("b", *outputs)


@pytest.mark.parametrize(
    ("statistics", "fits"),
    [
        ([ONE, ONE], True),
        ([ONE, ONE.model_copy(update={"nulls": 1})], False),
        ([ONE, ONE.model_copy(update={"nulls": None})], False),
        ([ONE, None], False),
    ],
)
def test_a_column_that_is_not_null_takes_only_files_without_nulls(
    world: World,
    statistics: list[ColumnStatistics | None],
    fits: bool,  # noqa: FBT001
) -> None:
    required = Schema(NestedField(1, "n", IntegerType(), required=True))
    world.tables.catalog.create_table(("lake", "t"), required, "s3://data/tables/lake/t")
    files = [
        a_file(f"data/{n}.parquet", columns={} if each is None else {1: each})
        for n, each in enumerate(statistics)
    ]

    if fits:
        world.publish("a", pending(*files))
        assert len(world.entries()) == len(files)
    else:
        with pytest.raises(VoidCommitError, match="n is NOT NULL in the table"):
            world.publish("a", pending(*files))


def test_a_publication_that_met_another_waits_and_tries_again(world: World) -> None:
    world.publish("a", pending())
    before = world.fake.clock.now()

    world.publish(
        "b",
        pending(a_file("b")),
        meanwhile=lambda: world.publish("c", pending(a_file("c"))) and None,
    )

    assert len(world.entries()) == 3
    assert world.fake.clock.now() > before


def test_an_overwrite_that_meets_another_leaves_it_in_place(world: World) -> None:
    base = world.publish("a", pending(mode="overwrite"))
    since = world.table().metadata.current_snapshot_id
    first, second = (
        pending(a_file(path), mode="overwrite", replaces_snapshot=since, replaces_base=base)
        for path in ("b", "c")
    )

    world.publish("b", first, meanwhile=lambda: world.publish("c", second))

    assert [each.file_path[-1] for each in world.entries()] == ["c"]


def test_a_publication_ends_when_its_time_is_up(world: World) -> None:
    now = world.fake.clock.now()

    with pytest.raises(TimeUpError):
        world.publish("a", pending(), until=now)
    assert world.tables.find(TablePath("lake", "t")) is None

    world.publish("a", pending(), until=now + dt.timedelta(milliseconds=1))
    assert len(world.entries()) == 1


def test_a_table_that_was_made_anew_is_another(world: World) -> None:
    world.publish("a", pending())
    table, asked = world.table(), list[Any]()
    stand_in: Any = SimpleNamespace(
        catalog=SimpleNamespace(
            commit_table=lambda _table, required, _updates: asked.extend(required)
        )
    )

    commit_once(stand_in, table, table.transaction())

    assert asked == [AssertTableUUID(uuid=table.metadata.table_uuid)]


@pytest.mark.parametrize(
    ("tries", "least", "most"), [(1, 0.06, 0.2), (2, 0.12, 0.4), (3, 0.24, 0.8), (60, 0.9, 3.0)]
)
def test_publishers_that_met_wait_longer_each_time_and_each_its_own_while(
    tries: int, least: float, most: float
) -> None:
    waits = [conflict_wait_s(f"token-{n}", tries) for n in range(1_000)]

    assert least <= min(waits) < 1.1 * least
    assert 0.95 * most < max(waits) <= most
    assert len(set(waits)) > 900


def nested(
    first: int, number: IcebergType, digits: int = 9, *, required: bool = False, at: int = 1
) -> Schema:
    """A struct, a list and a map with that number in them; ids are counted from `first`."""
    ids = itertools.count(first)
    pair = StructType(
        NestedField(next(ids), "n", IntegerType(), required=required),
        NestedField(next(ids), "wide", number, required=False),
    )
    fields: list[IcebergType] = [
        pair,
        ListType(next(ids), number, element_required=required),
        MapType(next(ids), IntegerType(), next(ids), number, value_required=required),
        DecimalType(digits, 2),
    ]
    names = ("pair", "list", "map", "exact")
    return Schema(
        *(
            NestedField(at + n, name, kind, required=False)
            for n, (name, kind) in enumerate(zip(names, fields, strict=True))
        )
    )


@pytest.mark.parametrize(
    ("there", "written", "then"),
    [
        (IntegerType(), LongType(), LongType()),
        (LongType(), IntegerType(), LongType()),
        (FloatType(), DoubleType(), DoubleType()),
        (StringType(), StringType(), StringType()),
    ],
)
def test_numbers_are_widened_wherever_they_are(
    world: World, there: IcebergType, written: IcebergType, then: IcebergType
) -> None:
    world.tables.catalog.create_table(("lake", "t"), nested(5, there), "s3://data/tables/lake/t")
    transaction = world.table().transaction()

    evolve(transaction, nested(105, written, 12, at=101), ())

    assert transaction.table_metadata.schema().as_struct() == nested(5, then, 12).as_struct()


def with_parts(
    number: IcebergType, digits: int = 9, *, required: bool = False
) -> list[IcebergType]:
    """The types of `nested`, each for a table of its own."""
    return [
        number,
        StructType(NestedField(5, "n", number, required=required)),
        ListType(5, number, element_required=required),
        MapType(5, IntegerType(), 6, number, value_required=required),
        MapType(5, number, 6, IntegerType(), value_required=required),
        DecimalType(digits, 2),
        StructType(NestedField(5, "n", DecimalType(digits, 2), required=required)),
    ]


def column(kind: IcebergType, *, required: bool = False) -> Schema:
    return Schema(NestedField(1, "c", kind, required=required))


def evolving(there: Schema) -> Transaction:
    world = World()
    world.tables.catalog.create_table(("lake", "t"), there, "s3://data/tables/lake/t")
    return world.table().transaction()


TAKEN = [
    *zip(with_parts(LongType()), with_parts(LongType()), strict=True),
    *zip(with_parts(LongType()), with_parts(IntegerType()), strict=True),
    *zip(with_parts(DoubleType()), with_parts(FloatType()), strict=True),
    *zip(with_parts(StringType()), with_parts(StringType()), strict=True),
    *zip(with_parts(LongType(), 9), with_parts(LongType(), 8), strict=True),
    *zip(with_parts(LongType()), with_parts(LongType(), required=True), strict=True),
    *zip(with_parts(LongType(), required=True), with_parts(LongType(), required=True), strict=True),
]


@pytest.mark.parametrize(("there", "written"), TAKEN)
def test_a_table_that_takes_the_values_is_left_alone(
    there: IcebergType, written: IcebergType, monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction = evolving(column(there))
    # pyiceberg looks at the whole table for each column that it is given.
    monkeypatch.setattr(transaction, "update_schema", None)

    evolve(transaction, column(written), ())


def test_a_part_that_the_table_lacks_is_added() -> None:
    there = StructType(NestedField(5, "n", LongType(), required=False))
    written = StructType(
        NestedField(5, "n", IntegerType(), required=False),
        NestedField(6, "more", StringType(), required=False),
    )
    transaction = evolving(column(there))

    evolve(transaction, column(written), ())

    (evolved,) = transaction.table_metadata.schema().fields
    assert isinstance(evolved.field_type, StructType)
    assert [(part.name, part.field_type) for part in evolved.field_type.fields] == [
        ("n", LongType()),
        ("more", StringType()),
    ]


def test_a_column_that_is_widened_stays_not_null() -> None:
    transaction = evolving(column(IntegerType(), required=True))

    evolve(transaction, column(LongType()), {"c"})

    assert transaction.table_metadata.schema().as_struct() == StructType(
        NestedField(1, "c", LongType(), required=True)
    )


@pytest.mark.parametrize(
    ("there", "written", "path"),
    [
        *zip(
            with_parts(IntegerType())[:5],
            with_parts(StringType())[:5],
            ["c", "c.n", "c.element", "c.value", "c.key"],
            strict=True,
        ),
        (IntegerType(), DecimalType(9, 2), "c"),
        (DecimalType(9, 2), IntegerType(), "c"),
        (DecimalType(9, 2), DecimalType(9, 3), "c"),
    ],
)
def test_what_does_not_fit_is_named_wherever_it_is(
    there: IcebergType, written: IcebergType, path: str
) -> None:
    transaction = evolving(column(there))

    with pytest.raises(OccupiedError, match=rf"^column {path} is \S.* in the table, and "):
        evolve(transaction, column(written), ())


def test_keys_of_a_map_are_not_widened() -> None:
    there, written = (MapType(5, key, 6, IntegerType()) for key in (IntegerType(), LongType()))

    with pytest.raises(OccupiedError, match="do not fit the table's: Cannot update map keys"):
        evolve(evolving(column(there)), column(written), ())


def test_parts_of_a_column_stay_not_null(world: World) -> None:
    required = nested(5, IntegerType(), required=True)
    world.tables.catalog.create_table(("lake", "t"), required, "s3://data/tables/lake/t")
    transaction = world.table().transaction()

    with pytest.raises(OccupiedError, match="is NOT NULL in the table, and optional"):
        evolve(transaction, nested(5, IntegerType()), ())
    evolve(transaction, required, ())


def test_the_written_columns_get_the_ids_of_the_table_in_all_their_parts() -> None:
    given = with_ids(nested(105, IntegerType(), at=101), nested(5, LongType()))

    assert given.as_struct() == nested(5, IntegerType()).as_struct()
