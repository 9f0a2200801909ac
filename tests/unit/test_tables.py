"""What a table's name may be, where it is allowed, and how it is partitioned."""

from typing import Any

import pytest
from pydantic import ValidationError

from longhaul.core.places import (
    DataPath,
    TableInput,
    TablePath,
    input_of,
    parse_output,
    parse_table,
    parse_table_input,
    place_of,
)
from longhaul.core.settings import EmrApplication, PathPolicy, RequestLimits, RuntimeSettings
from longhaul.outputs.manifest import (
    ColumnStatistics,
    PendingOutput,
    PendingTable,
    TableFile,
)
from longhaul.outputs.partitions import PartitionBy, column_of
from tests.builders import BUCKET, problems_of, settings, stage

FLIGHTS = TablePath("longhaul", "flights")
POLICY = PathPolicy(data_bucket=BUCKET, table_databases=("longhaul", "their_lake"))


def with_tables(of_next: dict[str, Any] | None = None, **of_stage: Any) -> RuntimeSettings:
    return settings(
        stages=(stage(**of_stage), stage(name="next", **(of_next or {}))),
        paths=POLICY.model_copy(update={"input_buckets": ("landing",)}),
        emr_serverless=EmrApplication(application_arn="arn:a/1", work_area="s3://data/work/"),
    )


def test_what_was_checked_is_read_as_what_it_is() -> None:
    assert input_of("s3://landing/a/b") == DataPath("s3", "landing", "a/b")
    assert input_of(str(FLIGHTS)) == TableInput(FLIGHTS)
    assert place_of("s3://b/out/", BUCKET) == "s3://b/out/"
    assert place_of(str(FLIGHTS), BUCKET) == f"s3://{BUCKET}/tables/longhaul/flights/"
    assert [column_of(text) for text in ("region", "day(at)")] == ["region", "at"]


@pytest.mark.parametrize("asked", [{}, {"engine": "emr-serverless"}, {"engine": "fargate"}])
@pytest.mark.parametrize("of_stage", ["emr-serverless", "fargate"])
def test_jobs_on_emr_serverless_neither_read_nor_write_tables(
    asked: dict[str, Any], of_stage: str
) -> None:
    known = with_tables(engine=of_stage)
    refused = asked.get("engine", of_stage) == "emr-serverless"
    reads = problems_of(known, inputs={"flights": str(FLIGHTS)}, **asked)
    writes = problems_of(known, output=str(FLIGHTS), **asked)
    assert any("jobs on emr-serverless read no tables" in each for each in reads) is refused
    assert any("send one for a table to engine fargate" in each for each in writes) is refused


def test_a_stage_that_reads_elsewhere_reads_no_table() -> None:
    known = with_tables(limits=RequestLimits(input_prefixes=("s3://landing/",)))
    (problem,) = problems_of(known, inputs={"flights": str(FLIGHTS)})
    assert "input_prefixes" in problem
    assert "input_prefixes_" not in problem


def test_a_table_is_a_database_that_the_settings_name_and_a_name() -> None:
    path = parse_table("table://their_lake/flights_2013", POLICY)

    assert path == TablePath("their_lake", "flights_2013") == TablePath.of(str(path))
    assert path.location(BUCKET) == f"s3://{BUCKET}/tables/their_lake/flights_2013"
    assert path.of_dataset("as-JSON").name == "flights_2013__as_json"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("table://other/flights", "this database is not allowed; allowed: longhaul, their_lake"),
        ("table://longhaul", "a table is table://DATABASE/NAME"),
        ("table://longhaul/", "a table is table://DATABASE/NAME"),
        ("table://longhaul/Flights", "a NAME has a-z 0-9 _"),
        ("table://longhaul/a/b", "a NAME has a-z 0-9 _"),
        ("table://longhaul/" + "a" * 181, "at most 180"),
    ],
)
def test_a_table_that_cannot_be_is_refused(text: str, problem: str) -> None:
    (found,) = problems_of(with_tables(), output=text)
    assert found.startswith("output: ")
    assert problem in found


def test_a_stack_without_databases_has_no_tables() -> None:
    (problem,) = problems_of(settings(), output="table://longhaul/flights")
    assert "this stack has no tables" in problem


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions", "error"])
def test_a_table_takes_each_mode_and_a_prefix_all_but_one(mode: str) -> None:
    assert problems_of(with_tables(), output="table://longhaul/flights", mode=mode) == []
    refused = problems_of(with_tables(), mode=mode)
    assert bool(refused) is (mode == "overwrite_partitions")


def test_limits_of_a_stage_hold_for_tables() -> None:
    limited = with_tables(
        limits=RequestLimits(output_prefixes=(f"s3://{BUCKET}/tables/longhaul/",))
    )

    assert problems_of(limited, output="table://longhaul/flights") == []
    (problem,) = problems_of(limited, output="table://their_lake/flights")
    assert problem == (
        f"output: stage main writes only below s3://{BUCKET}/tables/longhaul/ "
        "(limits.output_prefixes)"
    )


def test_a_table_goes_on_to_a_next_stage_that_reads_it_once() -> None:
    table = "table://longhaul/flights"

    assert problems_of(with_tables(next=("next",)), output=table) == []
    assert problems_of(with_tables({"join": True}, next=("next",)), output=table) == []
    (problem,) = problems_of(
        with_tables({"engine": "emr-serverless"}, next=("next",)), output=table
    )
    assert "to next, whose engine emr-serverless reads no tables" in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("table://longhaul/flights", TableInput(FLIGHTS)),
        ("table://longhaul/flights@17", TableInput(FLIGHTS, 17)),
        ("table://longhaul/flights?a = 'b@c?'", TableInput(FLIGHTS, None, "a = 'b@c?'")),
        (
            "table://longhaul/flights@17?day = '2013-01-01'",
            TableInput(FLIGHTS, 17, "day = '2013-01-01'"),
        ),
    ],
)
def test_an_input_may_be_a_table_a_snapshot_of_it_and_some_of_its_rows(
    text: str, expected: TableInput
) -> None:
    assert problems_of(with_tables(), inputs={"flights": text}) == []
    assert input_of(text) == parse_table_input(text, POLICY) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("table://other/flights", "this database is not allowed; allowed: longhaul, their_lake"),
        ("table://longhaul/flights@latest", "a snapshot is a number"),
        ("table://longhaul/flights@", "a snapshot is a number"),
        ("table://longhaul/flights?", "there is no filter after the ?"),
        ("table://longhaul/flights?a = '\n'", "has control characters"),
        ("table://longhaul/a/b", "a table is table://DATABASE/NAME"),
    ],
)
def test_an_input_that_is_no_table_is_refused(text: str, problem: str) -> None:
    (found,) = problems_of(with_tables(), inputs={"flights": text})
    assert found.startswith("inputs.flights: ")
    assert problem in found


def test_limits_of_a_stage_hold_for_tables_that_are_read() -> None:
    limited = with_tables(limits=RequestLimits(input_prefixes=(f"s3://{BUCKET}/tables/longhaul/",)))

    assert problems_of(limited, inputs={"a": "table://longhaul/flights"}) == []
    (problem,) = problems_of(limited, inputs={"a": "table://their_lake/flights"})
    assert f"stage main reads only below s3://{BUCKET}/tables/longhaul/" in problem


def test_no_prefix_is_among_the_tables() -> None:
    with pytest.raises(ValueError, match="name one as table://DATABASE/NAME"):
        parse_output(f"s3://{BUCKET}/tables/longhaul/", POLICY)
    assert parse_output(f"s3://{BUCKET}/tables/of-mine/", POLICY)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("region", PartitionBy(column="region")),
        ("day(at)", PartitionBy(column="at", transform="day")),
        ("hour(at)", PartitionBy(column="at", transform="hour")),
        ("bucket(at)", PartitionBy(column="bucket(at)")),
    ],
)
def test_a_partition_is_a_column_or_a_part_of_its_time(text: str, expected: PartitionBy) -> None:
    assert PartitionBy.parse(text) == expected
    assert str(expected) == text


def test_a_pending_list_keeps_binary_values_and_is_no_list_of_an_older_version() -> None:
    file = TableFile(
        path="data/t/0.parquet",
        size=1,
        rows=1,
        partition=(b"\xff\x00", None),
        columns={7: ColumnStatistics(lower=b"\x00", upper=b"\xff")},
    )
    table = PendingTable(
        database="d", name="n", location="s3://b/t", mode="append", columns="{}", files=(file,)
    )
    pending = PendingOutput(version=2, token="t", prefix="s3://b/", tables=(table,))

    text = pending.model_dump_json()

    assert PendingOutput.model_validate_json(text) == pending
    assert pending.folders == ("n/data/t/",)
    with pytest.raises(ValidationError):
        PendingOutput.model_validate({"version": 4, "token": "t", "prefix": "s3://b/"})
