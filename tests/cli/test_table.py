"""`longhaul table`: tables that pyiceberg made are read back, by another reader."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from moto.moto_api._internal.models import moto_api_backend
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType
from typer.testing import Result

from longhaul.cli import extras
from longhaul.cli.place import Place
from longhaul.cli.target import Target
from longhaul.core.settings import PathPolicy
from longhaul.local.credentials import aws_client
from tests.builders import BUCKET, settings
from tests.cli.conftest import ran
from tests.cli.page.conftest import ROOT, visitor_of
from tests.cli.page.conftest import words as shown
from tests.cli.test_tasks_page import LINES, words
from tests.servers import moto_server

REGION = "us-east-1"
FLIGHTS = pa.schema(
    [pa.field("n", pa.int64(), nullable=False), ("origin", pa.string()), ("delay", pa.int64())]
)
DATABASES = ("longhaul", "lake")


class World:
    """A stack with two databases on a catalog that pyiceberg writes to."""

    def __init__(self, endpoint: str, databases: Sequence[str] = DATABASES) -> None:
        self.target = Target(Place(endpoint, REGION, None, embedded=True), None)
        self.glue = aws_client("glue", endpoint=endpoint, region=REGION)
        self.s3 = aws_client("s3", endpoint=endpoint, region=REGION)
        keys = {"s3.access-key-id": "x", "s3.secret-access-key": "x", "s3.region": REGION}
        self.catalog = GlueCatalog("glue", client=self.glue, **keys, **{"s3.endpoint": endpoint})
        self.s3.create_bucket(Bucket=BUCKET)
        for name in DATABASES:
            self.glue.create_database(DatabaseInput={"Name": name})
        paths = PathPolicy(data_bucket=BUCKET, table_databases=tuple(databases))
        vars(self.target)["settings"] = settings(paths=paths)

    def make(self, name: str, schema: Any = FLIGHTS, database: str = "longhaul") -> Any:
        location = f"s3://{BUCKET}/tables/{database}/{name}"
        return self.catalog.create_table((database, name), schema, location=location)

    def flights(self, *rows: tuple[Any, ...], database: str = "longhaul") -> Any:
        made = self.make("flights", database=database)
        made.append(_arrow(rows))
        return made

    def run(self, *arguments: str, **expected: Any) -> Result:
        return ran("table", *arguments, **expected)


def _arrow(rows: Sequence[tuple[Any, ...]], schema: Any = FLIGHTS) -> Any:
    columns = list(zip(*rows, strict=True))
    return pa.table(
        [pa.array(each, kind) for each, kind in zip(columns, schema.types, strict=True)],
        schema=schema,
    )


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with moto_server() as url:
        yield url


@pytest.fixture
def make_world(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., World]]:
    moto_api_backend.reset()

    def make(**changes: Any) -> World:
        made = World(endpoint, **changes)
        monkeypatch.setattr("longhaul.cli.target.connect", lambda *_, **__: made.target)
        return made

    yield make
    moto_api_backend.reset()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()


def test_what_a_command_does_not_import_need_not_be_installed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.flights((1, "JFK", 10))
    monkeypatch.setattr(extras, "find_spec", lambda name: name != "duckdb" or None)

    world.run("list")
    world.run("query", "FROM flights", code=2, says="pip install 'longhaul-jobs[tables]'")


def test_rows_that_were_deleted_and_columns_that_were_renamed_are_read_as_they_are_now(
    world: World,
) -> None:
    flights = world.flights((1, "JFK", 10), (2, "JFK", 20))
    with flights.update_schema() as change:
        change.rename_column("delay", "late_by")
    flights.delete("n = 1")

    done = world.run("query", "FROM flights", "--json")

    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"n": 2, "origin": "JFK", "late_by": 20}
    ]


def test_tables_of_two_databases_are_joined_by_their_names(world: World) -> None:
    world.flights((1, "JFK", 10))
    world.flights((1, "LGA", 99), database="lake")

    done = world.run(
        "query",
        "WITH mine AS (FROM flights) "
        "SELECT mine.origin, theirs.origin FROM mine JOIN lake.flights theirs USING (n)",
    )

    assert done.stdout == "JFK\tLGA\n"


def test_values_of_every_kind_are_shown_in_full(world: World) -> None:
    schema = pa.schema(
        [
            ("at", pa.timestamp("us", tz="UTC")),
            ("price", pa.decimal128(20, 2)),
            ("tags", pa.list_(pa.string())),
            ("text", pa.string()),
        ]
    )
    at = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    row = (at, Decimal("123456789012345678.90"), ["a", None], "é\u202e")
    world.make("kinds", schema).append(_arrow([row], schema))

    shown = world.run("query", "FROM kinds").stdout
    record = world.run("query", "FROM kinds", "--json").stdout

    assert shown == ("2026-01-02 03:04:05.000006+00\t123456789012345678.90\t[a, NULL]\té\\u202e\n")
    assert record.isascii()
    assert json.loads(record, parse_float=Decimal) == {
        "at": "2026-01-02 03:04:05.000006+00",
        "price": Decimal("123456789012345678.90"),
        "tags": ["a", None],
        "text": "é\u202e",
    }


def test_a_limit_says_that_there_is_more(world: World) -> None:
    world.flights(*((n, "JFK", n) for n in range(5)))

    for arguments in ((), ("--json",)):
        done = world.run("query", "SELECT n FROM flights ORDER BY n", "--limit", "2", *arguments)
        assert len(done.stdout.splitlines()) == 2
        assert "raise --limit" in done.stderr
        assert "more" not in world.run("query", "FROM flights", "--limit", "5", *arguments).stderr


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("DROP TABLE flights", "not one SELECT"),
        ("COPY flights TO 'flights.csv'", "not one SELECT"),
        ("SELECT 1; SELECT 2", "not one SELECT"),
        ("", "not one SELECT"),
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("FROM nowhere", "Table with name nowhere does not exist"),
        ("SELECT colour FROM flights", '"colour" not found'),
        ("FROM elsewhere.flights", "Tables: longhaul.flights"),
    ],
)
def test_a_query_that_cannot_run_is_refused_with_the_reason(
    world: World, sql: str, why: str
) -> None:
    world.flights((1, "JFK", 10))

    assert world.run("query", sql, code=2, says=why).stdout == ""


def test_a_filter_leaves_out_no_rows_of_files_from_before_a_change(world: World) -> None:
    flights = world.flights((1, "JFK", 10), (2, "LGA", 20))
    with flights.update_schema() as change:
        change.add_column("gate", StringType())
    with flights.update_spec() as change:
        change.add_field("origin", IdentityTransform())
    flights.append(_arrow([(3, "JFK", 30, "B2")], FLIGHTS.append(pa.field("gate", pa.string()))))

    sql = "SELECT count(*) FILTER (gate IS NULL), count(*) FILTER (origin = 'JFK') FROM flights"
    filtered = [
        world.run("query", f"SELECT count(*) FROM flights WHERE {where}").stdout  # noqa: S608 - a test's own
        for where in ("gate IS NULL", "origin = 'JFK'")
    ]

    assert world.run("query", sql).stdout == "2\t2\n"
    assert filtered == ["2\n", "2\n"]


def test_a_column_whose_nulls_would_be_lost_is_left_out(world: World) -> None:
    legs = pa.list_(pa.struct([("to", pa.string())]))
    schema = pa.schema([("n", pa.int64()), ("legs", legs), ("trip", pa.struct([("legs", legs)]))])
    world.make("trips", schema).append(_arrow([(1, None, {"legs": None})], schema))

    done = world.run("query", "FROM trips")

    assert done.stdout == "1\n"
    assert "not read: longhaul.trips.legs, longhaul.trips.trip" in done.stderr


def test_a_table_that_is_too_large_for_a_look_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.flights((1, "JFK", 10))
    monkeypatch.setattr("longhaul.cli.tables.query._MOST_BYTES", 100)

    done = world.run("query", "FROM flights", code=1, says="longhaul.flights has ")
    assert "reads at most 100: query it with Athena" in done.stderr


def test_the_list_has_each_table_with_what_it_holds(world: World) -> None:
    flights = world.flights((1, "JFK", 10), (2, "JFK", 20))
    marks = {"longhaul.token": "abc-1-1", "longhaul.job": "main#january"}
    flights.append(_arrow([(3, "LGA", 30)]), marks)
    world.make("empty", database="lake")
    world.glue.create_table(DatabaseName="lake", TableInput={"Name": "csv"})

    lines = [line.split("\t") for line in world.run("list").stdout.splitlines()]
    first, second = (json.loads(line) for line in world.run("list", "--json").stdout.splitlines())

    assert [(name, rows, files, by) for name, rows, files, _, _, by in lines] == [
        ("longhaul.flights", "3", "2", "january"),
        ("lake.empty", "0", "0", ""),
    ]
    assert (first["name"], first["current"]["rows"], second["current"]) == ("flights", 3, None)
    assert first["current"]["output"] == "abc-1-1"


def test_the_page_lists_the_tables_with_their_jobs(world: World) -> None:
    marks = {"longhaul.token": "abc-1-1", "longhaul.job": "main#january"}
    world.make("flights").append(_arrow([(3, "LGA", 30)]), marks)
    world.make("empty", database="lake")
    page = visitor_of(world.target).read("/tables")
    assert "longhaul.flights 1 1 " in shown(page)
    assert " ago january lake.empty 0 0 0 bytes never" in shown(page)
    assert f'href="{ROOT}/find?id=january"' in page


def test_a_table_is_shown_with_its_columns_partitions_and_changes(world: World) -> None:
    by_origin = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "origin"))
    flights = world.catalog.create_table(
        ("longhaul", "flights"),
        Schema.model_validate(
            {
                "type": "struct",
                "fields": [
                    {"id": 1, "name": "n", "type": LongType(), "required": True},
                    {"id": 2, "name": "origin", "type": StringType(), "required": False},
                    {"id": 3, "name": "delay", "type": LongType(), "required": False},
                ],
            }
        ),
        location=f"s3://{BUCKET}/tables/longhaul/flights",
        partition_spec=by_origin,
    )
    flights.append(_arrow([(1, "JFK", 10)]))
    flights.append(_arrow([(2, "LGA", 20)]), {"longhaul.token": "abc-1-1"})
    marks = {"longhaul.token": "def-1-1", "longhaul.job": "main#flights/2013-01"}
    flights.append(_arrow([(3, "LGA", 30)]), marks)

    shown = world.run("show", "flights").stdout
    record = json.loads(world.run("show", "table://longhaul/flights", "--json").stdout)

    assert "partitioned by  origin" in shown
    assert "n\tlong\tnot null\n" in shown
    assert [each["added_rows"] for each in record["changes"]] == [1, 1, 1]
    assert [each["output"] for each in record["changes"]] == ["", "abc-1-1", "def-1-1"]
    assert [each["job"] for each in record["changes"]] == ["", "", "flights/2013-01"]
    assert shown.splitlines()[-1].endswith("\tflights/2013-01")
    assert record["changes"][-1]["rows"] == 3
    assert record["partition_by"] == ["origin"]
    assert [each["name"] for each in record["columns"]] == ["n", "origin", "delay"]


def test_a_table_that_is_not_there_is_named_with_those_that_are(world: World) -> None:
    world.flights((1, "JFK", 10))

    world.run(
        "show", "lake.flight", code=3, says="no table lake.flight; there is: longhaul.flights"
    )


def test_what_is_no_iceberg_table_is_refused(world: World) -> None:
    world.glue.create_table(DatabaseName="longhaul", TableInput={"Name": "csv"})

    for arguments in (("show", "csv"), ("query", "FROM csv")):
        world.run(*arguments, code=3, says="longhaul/csv is no Iceberg table")


@pytest.mark.parametrize("line", [each for each in LINES if each.startswith("table ")])
def test_a_command_of_the_page_of_tasks_runs(world: World, line: str) -> None:
    world.flights((1, "JFK", 10))
    assert world.run(*words(line)[1:]).stdout.strip()
