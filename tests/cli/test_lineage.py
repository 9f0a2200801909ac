"""`longhaul lineage`: from an output or a table to what it was made of, and so on."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import boto3
import pyarrow as pa
import pytest
from moto import mock_aws
from typer.testing import Result

from longhaul.cli import extras
from longhaul.cli.place import Place
from longhaul.cli.target import Target
from longhaul.core.lease import AttemptId
from longhaul.core.places import TablePath
from longhaul.core.settings import Mode, PathPolicy
from longhaul.operations.lineage import MAX_PLACES, Known, Wanted, upstream
from longhaul.outputs.iceberg.catalog import Tables
from longhaul.outputs.lineage import JOB, InputRead, Origin, Writer, marks, origin
from longhaul.outputs.manifest import Manifest, ManifestFile, PendingOutput, merged
from tests.builders import BUCKET, settings, there
from tests.cli.conftest import ran
from tests.cli.page.conftest import visitor_of
from tests.cli.page.conftest import words as shown
from tests.cli.test_tasks_page import LINES, words

REGION = "us-east-1"
RUN = 1767323045000
AT = datetime(2026, 10, 7, 5, tzinfo=UTC)
ELSEWHERE = "from elsewhere: no job of Longhaul is known to have written it"
RAW = InputRead(name="raw", path=f"s3://{BUCKET}/raw/", files=2, size_bytes=40, digest="ab12")


def attempt(job: str, number: int = 1) -> AttemptId:
    return AttemptId(f"main#{job}", RUN, number)


class World:
    """A stack with a bucket and a database, and jobs that have written there."""

    def __init__(self) -> None:
        self.s3, self.glue = boto3.client("s3", REGION), boto3.client("glue", REGION)
        self.target = Target(Place(None, REGION, None, embedded=False), None)
        vars(self.target)["_clients"] = {}
        self.s3.create_bucket(Bucket=BUCKET)
        for name in ("lake", "longhaul"):
            self.glue.create_database(DatabaseInput={"Name": name})
        self.tables = Tables(lambda: self.glue, self.s3, BUCKET)
        paths = PathPolicy(data_bucket=BUCKET, table_databases=("lake", "longhaul"))
        vars(self.target)["settings"] = settings(paths=paths)
        self._manifests: dict[str, Manifest] = {}
        self._written = 0

    def output(self, prefix: str, job: str, *inputs: InputRead, mode: Mode = "overwrite") -> Writer:
        """A job writes one file there."""
        id_, current = attempt(job), self._manifests.get(prefix)
        replaced = current if mode == "overwrite" else None
        self._written += 1
        pending = PendingOutput(
            token=id_.token,
            prefix=f"s3://{BUCKET}/{prefix}",
            mode=mode,
            replaces=tuple(file.path for file in replaced.files) if replaced else (),
            manifest=Manifest(
                key=id_.key,
                run=id_.run,
                attempt=id_.attempt,
                files=(ManifestFile(path=f"day={job}/part-{id_.token}.csv", size=1),),
                origins=(origin(id_, AT + timedelta(hours=self._written), inputs),),
            ),
        )
        self._manifests[prefix] = manifest = merged(pending, current)
        body = manifest.model_dump_json().encode()
        self.s3.put_object(Bucket=BUCKET, Key=f"{prefix}_SUCCESS", Body=body)
        return Writer(place=pending.prefix, key=id_.key, run=id_.run, attempt=id_.attempt)

    def table(
        self,
        job: str | None,
        *inputs: InputRead,
        mode: Mode = "append",
        database: str = "lake",
        name: str = "daily",
    ) -> InputRead:
        """A job, or another writer, adds a row to the table; returns it as an input."""
        path, columns = TablePath(database, name), pa.schema([("n", pa.int64())])
        both = (path.database, path.name)
        if not self.tables.catalog.table_exists(both):
            self.tables.catalog.create_table(both, columns, path.location(BUCKET))
        table, summary = self.tables.catalog.load_table(both), dict[str, str]()
        writers: tuple[Writer, ...] = ()
        if job is not None:
            id_ = attempt(job)
            summary = {JOB: id_.key, "longhaul.mode": mode, **marks(origin(id_, AT, inputs), None)}
            writer = Writer(place=str(path), key=id_.key, run=id_.run, attempt=id_.attempt)
            writers = (writer,)
        table.append(pa.table({"n": [1]}, columns), snapshot_properties=summary)
        snapshot = there(table.current_snapshot())
        return InputRead(
            name="daily",
            path=str(path),
            files=1,
            size_bytes=9,
            snapshot=snapshot.snapshot_id,
            writers=writers,
        )

    def run(self, *arguments: str, **expected: Any) -> Result:
        return ran("lineage", *arguments, **expected)

    def records(self, data: str) -> list[dict[str, Any]]:
        done = self.run(data, "--json")
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with mock_aws():
        made = World()
        monkeypatch.setattr("longhaul.cli.target.connect", lambda **_: made.target)
        yield made


def read_of(writer: Writer, name: str = "clean") -> InputRead:
    return InputRead(
        name=name, path=writer.place, files=1, size_bytes=1, digest="cd34", writers=(writer,)
    )


def test_an_output_is_followed_through_tables_and_outputs_to_what_came_from_elsewhere(
    world: World,
) -> None:
    clean = world.output("clean/", "clean-1", RAW)
    daily = world.table("daily-1", read_of(clean))
    world.output("report/", "report-1", daily)

    assert world.run(f"s3://{BUCKET}/report/").stdout.splitlines() == [
        f"s3://{BUCKET}/report/",
        f"  by report-1 of main, run {RUN}, attempt 1, 2026-10-07 07:00:00Z",
        f"    daily: table://lake/daily  1 file of 9 bytes, snapshot {daily.snapshot}",
        f"      by daily-1 of main, run {RUN}, attempt 1, 2026-10-07 05:00:00Z",
        f"        clean: s3://{BUCKET}/clean/  1 file of 1 bytes, version cd34",
        f"          by clean-1 of main, run {RUN}, attempt 1, 2026-10-07 06:00:00Z",
        f"            raw: s3://{BUCKET}/raw/  2 files of 40 bytes, version ab12, {ELSEWHERE}",
    ]
    records = world.records(f"s3://{BUCKET}/report/")
    assert [(each["depth"], each["input"]) for each in records] == [
        (0, None),
        (1, "daily"),
        (2, "clean"),
        (3, "raw"),
    ]
    assert records[1]["read_by"]["job_id"] == "report-1"
    assert records[1]["written_by"] == [
        {
            "stage": "main",
            "job_id": "daily-1",
            "run": RUN,
            "attempt": 1,
            "at": "2026-10-07T05:00:00.000Z",
            "inputs": ["clean"],
            "inputs_left_out": 0,
        }
    ]
    assert records[3]["note"].startswith("from elsewhere")


def test_the_page_shows_what_a_tables_rows_were_made_of(world: World) -> None:
    world.table("daily-1", RAW)
    visitor = visitor_of(world.target)
    page = shown(visitor.read("/lineage?of=table://lake/daily"))
    assert f"by main daily-1 {RUN}, 1 2026-10-07 05:00:00Z" in page
    assert f"{RAW.path} ab12 {ELSEWHERE}" in page
    unknown = visitor.get("/lineage?of=elsewhere")
    assert (unknown.status_code, "is no s3://" in unknown.text) == (404, True)


@pytest.mark.parametrize("line", [each for each in LINES if each.startswith("lineage ")])
def test_a_command_of_the_page_runs(world: World, line: str) -> None:
    world.table("daily-1", RAW, name="flights", database="longhaul")
    world.output("clean/", "clean-1", RAW)

    world.run(*words(line)[1:])


def test_the_version_that_was_read_counts_and_not_what_came_since(world: World) -> None:
    first = world.output("clean/", "clean-1", RAW, mode="append")
    world.output("report/", "report-1", read_of(first))
    world.output("clean/", "clean-2", RAW, mode="append")

    (_, clean, _) = world.records(f"s3://{BUCKET}/report/")
    assert [each["job_id"] for each in clean["written_by"]] == ["clean-1"]

    world.output("clean/", "clean-3", RAW)
    (_, clean) = world.records(f"s3://{BUCKET}/report/")
    assert clean["note"] == "replaced since, by main#clean-3: what it was made of is not kept"


def test_of_a_file_or_a_folder_of_an_output_only_its_own_writers_are_shown(world: World) -> None:
    world.output("clean/", "clean-1", RAW, mode="append")
    world.output("clean/", "clean-2", RAW, mode="append")

    for data in ("clean/day=clean-2/", f"clean/day=clean-2/part-{attempt('clean-2').token}.csv"):
        (clean, *_) = world.records(f"s3://{BUCKET}/{data}")
        assert [each["job_id"] for each in clean["written_by"]] == ["clean-2"]
    both = world.records(f"s3://{BUCKET}/clean")[0]
    assert [each["job_id"] for each in both["written_by"]] == ["clean-1", "clean-2"]


def test_a_table_goes_back_to_its_last_overwrite_and_counts_other_writers(world: World) -> None:
    world.table("old", RAW)
    world.table("whole", RAW, mode="overwrite")
    world.table(None)
    world.table("more", RAW)

    (table, *_) = world.records("table://lake/daily")
    assert [each["job_id"] for each in table["written_by"]] == ["whole", "more"]
    assert table["note"] == "1 change by other writers than Longhaul"


def test_attempts_whose_rows_were_replaced_are_left_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job in ("wrong", "right"):
        world.table(job, RAW)
    left = [SimpleNamespace(file_path=f"s3://b/{attempt('right').token}/00000.parquet")]
    monkeypatch.setattr("longhaul.outputs.iceberg.history.live_files", lambda *_: left)
    (table, *_) = world.records("table://lake/daily")
    assert [each["job_id"] for each in table["written_by"]] == ["right"]


def test_data_that_no_job_wrote_is_said_so(world: World) -> None:
    world.s3.put_object(Bucket=BUCKET, Key="raw/a.csv", Body=b"n\n")
    world.s3.put_object(Bucket=BUCKET, Key="spark/_SUCCESS", Body=b"")
    for data in (f"s3://{BUCKET}/raw/", f"s3://{BUCKET}/raw/a.csv", "data:spark/"):
        world.run(data, code=3, says="no output of Longhaul: there is no _SUCCESS")

    world.run("table:none", code=3, says="table://lake/none: there is no such table", prints="")
    world.run(
        "clean/",
        code=2,
        says="clean/ is no s3://BUCKET/PREFIX, data:PREFIX, table:NAME or table://",
    )


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("s3://theirs/out/", "AWS answers NoSuchBucket"),
        ("", "no s3://BUCKET/PREFIX"),
        ("file:///etc/passwd", "no s3://BUCKET/PREFIX"),
        ("s3://arn:aws:s3:us-east-1:123456789012:accesspoint/x/", "no s3://BUCKET/PREFIX"),
        ("table://", "no table://DATABASE/NAME"),
        ("table://another/x", "another is no database of this stack"),
    ],
)
def test_a_place_that_cannot_be_looked_up_ends_its_branch_alone(
    world: World, place: str, why: str
) -> None:
    theirs = Writer(place=place, key="main#x", run=1, attempt=1)
    world.output("clean/", "clean-1", read_of(theirs, "theirs"), RAW)

    (_, first, second) = world.records(f"s3://{BUCKET}/clean/")
    assert first["note"].startswith("not looked up: ")
    assert why in first["note"]
    assert second["input"] == "raw"

    assert world.run(place, code=None, prints="").exit_code in (2, 3, 4)


def test_without_pyiceberg_a_table_says_what_to_install(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)

    world.run("table://lake/daily", code=2, says="longhaul-jobs[tables]")


def test_a_job_that_reads_its_own_output_is_followed_once() -> None:
    writer = Writer(place="s3://data/out/", key="main#a", run=1, attempt=1)
    own = Origin(key="main#a", run=1, attempt=1, inputs=(read_of(writer, "own"),))

    wanted = Wanted(writer.place, read_of(writer), own, writer)
    steps = [each for each in upstream(wanted, lambda _: Known((own,))) if not each.writer]

    assert [each.known.note for each in steps] == ["", "shown above"]


def test_a_walk_looks_up_so_many_places_and_no_more() -> None:
    looked = []

    def look(wanted: Wanted) -> Known:
        looked.append(wanted.place)
        writers = [
            Writer(place=f"{wanted.place}{n}/", key="main#a", run=1, attempt=1) for n in range(9)
        ]
        reads = tuple(read_of(each) for each in writers)
        return Known((Origin(key="main#a", run=1, attempt=1, inputs=reads),))

    steps = list(upstream(Wanted("s3://data/out/"), look))

    assert len(looked) == MAX_PLACES
    assert len(steps) < 9 * 2 * MAX_PLACES + 2
