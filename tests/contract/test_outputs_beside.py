"""Several outputs of one attempt: a table and prefixes become visible together, as far as can be.

Each has a switch of its own. What a kill at any call leaves, the next publisher finishes.
"""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from longhaul.core.errors import TornOutputError, UploadsGoneError, VoidCommitError
from longhaul.core.lease import AttemptId, CommittedOutput, NamedOutput
from longhaul.core.places import DataPath, TablePath
from longhaul.core.settings import Mode
from longhaul.outputs.iceberg.catalog import Tables
from longhaul.outputs.manifest import PendingOutput
from longhaul.outputs.pending import pending_ref
from longhaul.outputs.publisher import S3Publisher, read_manifest
from longhaul.runner.io.destinations import PrefixDestination
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.table_destination import TableDestination
from longhaul.runner.io.transfer import Moving
from longhaul.runner.io.uploader import Uploader
from longhaul.runner.io.written import Dataset
from longhaul.runner.stopping import Stop
from simulation.aws.cloud import FakeAws
from simulation.aws.shapes import checked
from tests.contract.lake import BUCKET, COLUMNS, PATH, Lake
from tests.contract.mortal import Killed, Mortal

PREFIXES = {"a": "out/a/", "b": "out/b/"}
ROWS = [(1, "x")]
OLD = "old"


@dataclass
class Beside:
    """A job whose main output is a table, with two prefixes beside it."""

    lake: Lake
    mode: Mode = "append"
    committed: AttemptId | None = None
    sent: CommittedOutput | None = None
    with_table: bool = True
    prefixes: dict[str, str] = field(default_factory=lambda: dict(PREFIXES))

    def upload(self, life: Mortal, job: str = "job", attempt: int = 1) -> AttemptId:
        s3, id_ = life.client(self.lake.s3), AttemptId(f"main#{job}", 1, attempt)
        uploader = Uploader(s3, BUCKET, Moving(Stop()))
        listing = InputListing(s3, BUCKET)
        plans = {}
        if self.with_table:
            table = TableDestination(self.lake.tables, PATH, self.mode, id_, lambda _: None)
            main = self.lake.written(table, id_, ".", ROWS, (), COLUMNS)
            plans[""] = table.plan([main], listing)
        for name, prefix in self.prefixes.items():
            folder = self.lake.folder / id_.token / f"of-{name}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "part-0.csv").write_text(job)
            place = DataPath("s3", BUCKET, prefix)
            mode: Mode = "overwrite" if self.mode == "overwrite_partitions" else self.mode
            destination = PrefixDestination(s3, place, mode, id_)
            written = [Dataset(".", folder, 1, output=name)]
            plans[name] = destination.plan(written, listing)
        first = next(iter(plans))
        self.sent = uploader.send(plans.pop(first), plans)
        return id_

    def publisher(self, life: Mortal) -> S3Publisher:
        s3, glue = life.client(self.lake.s3), life.client(self.lake.glue)
        tables = Tables(lambda: glue, s3, BUCKET)
        return S3Publisher(s3, BUCKET, tables=lambda: tables)

    def publish(self, output: AttemptId) -> None:
        self.publisher(Mortal()).publish(output)

    def run(self, life: Mortal, attempt: int) -> None:
        if self.committed is None:
            self.committed = self.upload(life, attempt=attempt)
        self.publisher(life).publish(self.committed)

    def settle(self, attempt: int) -> None:
        if self.committed is None:
            self.publisher(Mortal()).discard(AttemptId("main#job", 1, attempt))
        else:
            self.publish(self.committed)

    def texts(self, name: str) -> list[str]:
        """What the files of a prefix hold that its manifest names; fails when one is missing."""
        prefix = self.prefixes[name]
        manifest, _ = read_manifest(self.lake.s3, BUCKET, prefix)
        keys = [prefix + file.path for file in manifest.files] if manifest else []
        return sorted(
            self.lake.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read().decode() for key in keys
        )

    def shown(self) -> list[bool]:
        """Which outputs show the job's work, in the order in which they become visible."""
        return [self.lake.rows() != [], *("job" in self.texts(name) for name in self.prefixes)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """The strict fake alone: there are many cases, and moto is stricter in none."""
    return Lake(tmp_path, FakeAws(around=checked).client)


# Three uploads created, the list, three parts, the list again, three completions; a manifest list,
# a manifest, the metadata and the table itself; two manifests of outputs.
WRITES = 17
# What a publisher writes before the manifests of prefixes: of its nine.
UP_TO_THE_TABLE = 7


def test_number_of_writes_is_the_number_of_kills_tried_below(lake: Lake) -> None:
    life = Mortal()
    Beside(lake).run(life, 1)
    assert life.writes == WRITES


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", range(1, WRITES + 1))
def test_kill_at_any_write_shows_outputs_in_their_order_and_the_next_attempt_finishes(
    lake: Lake, dies_at: int, *, after: bool
) -> None:
    beside = Beside(lake)

    with pytest.raises(Killed):
        beside.run(Mortal(dies_at, after=after), 1)

    shown = beside.shown()
    assert shown == sorted(shown, reverse=True)
    assert beside.committed is not None or not any(shown)
    beside.settle(1)
    beside.run(Mortal(), 2)
    assert lake.rows() == ROWS
    assert [beside.texts(name) for name in PREFIXES] == [["job"], ["job"]]
    beside.settle(2)
    assert (lake.rows(), len(lake.tokens())) == (ROWS, 1)


def test_the_commit_names_all_outputs_and_the_list_is_of_version_3(lake: Lake) -> None:
    beside = Beside(lake)
    attempt = beside.upload(Mortal())
    output = beside.sent
    assert output is not None

    assert output.prefix == str(PATH)
    assert output.beside == (
        NamedOutput("a", 1, 3, f"s3://{BUCKET}/out/a/"),
        NamedOutput("b", 1, 3, f"s3://{BUCKET}/out/b/"),
    )
    body = lake.s3.get_object(Bucket=BUCKET, Key=pending_ref(attempt))["Body"].read()
    pending = PendingOutput.model_validate_json(body)
    assert (pending.version, [each.version for each in pending.beside]) == (3, [1, 1])


def test_no_output_becomes_visible_where_one_of_them_is_occupied(lake: Lake) -> None:
    beside = Beside(lake, "error")
    output = beside.upload(Mortal())
    other = Beside(lake, "append", with_table=False, prefixes={"b": PREFIXES["b"]})
    other.publish(other.upload(Mortal(), OLD))

    with pytest.raises(VoidCommitError, match="out/b/ holds another output"):
        beside.publish(output)

    assert not any(beside.shown())
    beside.publisher(Mortal()).discard(AttemptId("main#job", 1, 1))
    assert lake.s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []) == []
    assert beside.texts("b") == [OLD]


def test_an_output_is_torn_once_another_is_visible(lake: Lake) -> None:
    beside = Beside(lake, "error")
    output = beside.upload(Mortal())
    with pytest.raises(Killed):
        beside.publisher(Mortal(UP_TO_THE_TABLE, after=True)).publish(output)
    assert beside.shown() == [True, False, False]
    other = Beside(lake, "append", with_table=False, prefixes={"b": PREFIXES["b"]})
    other.publish(other.upload(Mortal(), OLD))

    for _ in range(2):  # and it stays so
        with pytest.raises(TornOutputError, match=r"lake/flights is published, and s3:.*/b/ never"):
            beside.publish(output)

    assert (lake.rows(), beside.texts("a"), beside.texts("b")) == (ROWS, [], [OLD])


def test_an_output_is_torn_when_files_are_deleted_between_its_switches(lake: Lake) -> None:
    """Not void: the job would run again, and add its rows twice to the table."""
    beside = Beside(lake)
    output = beside.upload(Mortal())
    with pytest.raises(Killed):
        beside.publisher(Mortal(UP_TO_THE_TABLE, after=True)).publish(output)
    (lost,) = lake.s3.list_objects_v2(Bucket=BUCKET, Prefix="out/b/")["Contents"]
    lake.s3.delete_object(Bucket=BUCKET, Key=lost["Key"])

    with pytest.raises(TornOutputError, match="part of the output is published, and 1 of 2 files"):
        beside.publish(output)


def test_two_tables_may_be_outputs_of_one_job(lake: Lake) -> None:
    id_, other = AttemptId("main#two", 1, 1), TablePath("lake", "airports")
    uploader = Uploader(lake.s3, BUCKET, Moving(Stop()))
    plans = []
    for n, path in enumerate((PATH, other)):
        table = TableDestination(lake.tables, path, "append", id_, lambda _: None)
        written = lake.written(table, id_, "." if n else "x", ROWS, (), COLUMNS)
        plans.append(table.plan([written], InputListing(lake.s3, BUCKET)))
    uploader.send(plans[0], {"airports": plans[1]})

    lake.publish(id_)
    lake.publish(id_)

    assert lake.rows(PATH.of_dataset("x")) == lake.rows(other) == ROWS


def test_a_list_with_lists_within_those_beside_it_is_left_alone(lake: Lake) -> None:
    beside = Beside(lake)
    output = beside.upload(Mortal())
    body = lake.s3.get_object(Bucket=BUCKET, Key=pending_ref(output))["Body"].read()
    pending = PendingOutput.model_validate_json(body)
    first, second = pending.beside
    nested = pending.model_copy(
        update={"beside": (first.model_copy(update={"beside": (second,)}),)}
    )
    lake.s3.put_object(
        Bucket=BUCKET, Key=pending_ref(output), Body=nested.model_dump_json().encode()
    )

    with pytest.raises(UploadsGoneError, match="no list"):
        beside.publish(output)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_job_that_wrote_nothing_to_its_table_puts_nothing_anywhere(
    lake: Lake, mode: Mode
) -> None:
    """It emitted. A second one would find the first one's manifest where no output can be."""
    for job in ("first", "second"):
        output = lake.upload(job, [], mode, datasets=())
        lake.publisher().publish(output, places=[f"table://{PATH.database}/{PATH.name}"])

    assert lake.tables.load(PATH) is None
    keys = [each["Key"] for each in lake.s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert not any(key.startswith("tables/") for key in keys)
