"""What an overwrite may replace, by what others have made of the table since its upload began."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
)
from pyiceberg.table.delete_file_index import PATH_FIELD_ID
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.typedef import Record

from longhaul.outputs.iceberg.catalog import OccupiedError
from longhaul.outputs.iceberg.history import (
    MODE,
    PUBLISHED,
    TOKEN,
    ChangedError,
    ReplacedError,
    added_before,
    is_published,
    to_replace,
    written_by,
)

ADDED, DELETED = ManifestEntryStatus.ADDED, ManifestEntryStatus.DELETED


def file(
    path: str, place: str | None = "x", *, rows: int = 1, spec: int = 0, **bounds: Any
) -> DataFile:
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(place),
        record_count=rows,
        file_size_in_bytes=1,
        **bounds,
    )
    made.spec_id = spec
    return made


def row_deletes(path: str, lower: str | None = None, upper: str | None = None) -> DataFile:
    """Of rows in files between these paths."""
    lower_bounds, upper_bounds = (
        None if bound is None else {PATH_FIELD_ID: bound.encode()} for bound in (lower, upper)
    )
    return file(path, lower_bounds=lower_bounds, upper_bounds=upper_bounds)


@dataclass
class Manifest:
    added_snapshot_id: int
    entries: list[ManifestEntry]
    content: ManifestContent = ManifestContent.DATA
    partition_spec_id: int = 0

    def fetch_manifest_entry(self, _io: object, *, discard_deleted: bool = True) -> list[Any]:
        return [each for each in self.entries if each.status != DELETED or not discard_deleted]


@dataclass
class Snapshot:
    snapshot_id: int
    parent_snapshot_id: int | None
    summary: Summary | None
    listed: list[Manifest]

    def manifests(self, _io: object) -> list[Manifest]:
        return self.listed


@dataclass
class Table:
    """As `to_replace` sees one: its snapshots, and the entries of their manifests."""

    snapshots: list[Snapshot] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    io: Any = None

    @property
    def metadata(self) -> Any:
        return SimpleNamespace(
            snapshots=self.snapshots,
            properties=self.properties,
            current_snapshot_id=self.snapshots[-1].snapshot_id if self.snapshots else None,
            snapshot_by_id=lambda wanted: next(
                (each for each in self.snapshots if each.snapshot_id == wanted), None
            ),
        )

    def spec(self) -> Any:
        return SimpleNamespace(spec_id=0)

    def commit(
        self,
        added: Sequence[DataFile] = (),
        removed: Sequence[DataFile] = (),
        *,
        mode: str = "append",
        token: str = "",
        operation: Operation | None = Operation.APPEND,
        row_deletes: Sequence[DataFile] = (),
        removed_deletes: Sequence[DataFile] = (),
        extra: Sequence[Manifest] = (),
    ) -> int:
        """Files are added to those of the last snapshot, in a manifest of this one's."""
        before = self.snapshots[-1] if self.snapshots else None
        new = len(self.snapshots) + 1
        kept = [
            Manifest(each.added_snapshot_id, left, each.content, each.partition_spec_id)
            for each in (before.listed if before else ())
            if (left := [one for one in each.entries if one.data_file not in removed])
        ]
        data = [entry(ADDED, new, each) for each in added]
        data += [entry(DELETED, new, each) for each in removed]
        deletes = [entry(ADDED, new, each) for each in row_deletes]
        deletes += [entry(DELETED, new, each) for each in removed_deletes]
        kept += [Manifest(new, data), Manifest(new, deletes, ManifestContent.DELETES), *extra]
        summary = None if operation is None else Summary(operation, **{MODE: mode, TOKEN: token})
        parent = before.snapshot_id if before else None
        self.snapshots.append(Snapshot(new, parent, summary, kept))
        return new


def entry(status: ManifestEntryStatus, snapshot: int, of: DataFile) -> ManifestEntry:
    return ManifestEntry.from_args(status=status, snapshot_id=snapshot, data_file=of)


def replaced(
    table: Table, since: int | None, places: Collection[str | None] | None = None
) -> set[str]:
    partitions = None if places is None else {(0, (place,)) for place in places}
    stand_in: Any = table
    return {each.file_path for each in to_replace(stand_in, since, partitions)}


@pytest.fixture
def table() -> Table:
    return Table()


def test_what_was_there_is_replaced_and_what_came_since_is_not(table: Table) -> None:
    began = table.commit([file("a"), file("b", "y")])
    table.commit([file("c"), file("d", "y")])

    assert replaced(table, began) == {"a", "b"}
    assert replaced(table, began, {"y"}) == {"b"}


@pytest.mark.parametrize("places", [None, {"x"}])
def test_an_overwrite_of_an_empty_table_replaces_nothing(
    table: Table, places: set[str | None] | None
) -> None:
    assert replaced(table, None, places) == set()
    table.commit([file("a")])
    assert replaced(table, None, places) == set()


def test_another_overwrite_of_the_table_counts_as_the_later_one(table: Table) -> None:
    began = table.commit([file("a")])
    table.commit(mode="overwrite")

    for since in (began, None):
        with pytest.raises(ReplacedError):
            replaced(table, since)


def test_history_that_is_gone_makes_the_job_run_again(table: Table) -> None:
    for name in "abc":
        table.commit([file(name)])
    del table.snapshots[1]

    with pytest.raises(ChangedError, match="since this output's upload has expired"):
        replaced(table, 1)
    with pytest.raises(ChangedError, match="would replace has expired"):
        replaced(table, 2)


def test_a_rolled_back_table_makes_the_job_run_again(table: Table) -> None:
    table.commit([file("a")])
    table.commit([file("b")])
    table.snapshots.reverse()

    with pytest.raises(ChangedError, match="was rolled back"):
        replaced(table, 2)


def test_rows_that_were_rewritten_are_replaced_where_they_are_now(table: Table) -> None:
    began = table.commit([old := file("a", rows=2), other := file("b", rows=3)])
    table.commit([file("c", rows=5)], [old, other], operation=Operation.REPLACE)
    table.commit([file("d")])

    assert replaced(table, began) == {"c"}


def test_a_rewriting_is_followed_in_each_partition_by_itself(table: Table) -> None:
    began = table.commit([mine := file("a", rows=2), file("b")])
    table.commit([since := file("c", "y", rows=3)])
    table.commit(
        [file("d", rows=2), file("e", "y", rows=3)], [mine, since], operation=Operation.REPLACE
    )

    assert replaced(table, began, {"x"}) == {"b", "d"}


def test_a_rewriting_may_take_row_deletes_away(table: Table) -> None:
    began = table.commit([old := file("a")])
    table.commit(
        [file("b")],
        [old],
        operation=Operation.REPLACE,
        removed_deletes=[row_deletes("deletes", "a", "a")],
    )

    assert replaced(table, began) == {"b"}


@pytest.mark.parametrize(
    ("with_since", "rows"),
    [
        (True, 3),  # all rows of both
        (True, 1),  # as many as were there
        (False, 2),  # more than were there
    ],
)
def test_a_rewriting_that_mixes_rows_makes_the_job_run_again(
    table: Table, rows: int, *, with_since: bool
) -> None:
    began = table.commit([old := file("a")])
    table.commit([since := file("b", rows=2)])
    removed = [old, since] if with_since else [old]
    table.commit([file("c", rows=rows)], removed, operation=Operation.REPLACE)

    with pytest.raises(ChangedError, match="mixed"):
        replaced(table, began)


@pytest.mark.parametrize("operation", [Operation.OVERWRITE, None])
def test_rows_that_others_removed_make_the_job_run_again(
    table: Table, operation: Operation | None
) -> None:
    began = table.commit([old := file("a")])
    table.commit([file("b")], [old], mode="", operation=operation)

    with pytest.raises(ChangedError, match="have changed"):
        replaced(table, began)


def test_what_an_earlier_snapshot_removed_is_not_removed_again(table: Table) -> None:
    """A writer may carry the mark along in manifests of its own."""
    began = table.commit([kept := file("a")])
    carried = Manifest(2, [entry(DELETED, 1, kept), entry(ADDED, 1, file("b", "y"))])
    table.commit(extra=[carried])

    assert replaced(table, began) == {"a"}


def test_partitions_that_others_overwrote_are_told_from_others(table: Table) -> None:
    began = table.commit([x := file("a"), file("b", "y"), z := file("c", "z")])
    table.commit([file("d", "z")], [z], mode="overwrite_partitions")

    assert replaced(table, began, {"x", "y"}) == {"a", "b"}

    table.commit([file("e"), file("f", "z")], [x], mode="overwrite_partitions")

    with pytest.raises(ReplacedError):
        replaced(table, began, {"x"})
    with pytest.raises(ReplacedError):
        replaced(table, began, {"z"})
    with pytest.raises(ChangedError, match="overwritten some of these"):
        replaced(table, began, {"x", "y"})


@pytest.mark.parametrize(
    ("lower", "upper", "concerns"),
    [
        ("m", "m", True),
        ("a", "z", True),
        ("a", "b", False),
        ("n", "z", False),
        (None, None, True),  # a delete by values
        ("n", None, True),
        (None, "b", True),
    ],
)
def test_row_deletes_count_where_they_may_name_a_file(
    table: Table,
    lower: str | None,
    upper: str | None,
    concerns: bool,  # noqa: FBT001
) -> None:
    began = table.commit([file("m"), file("zz")])
    table.commit(row_deletes=[row_deletes("deletes", lower, upper)], operation=Operation.DELETE)

    if concerns:
        with pytest.raises(ChangedError, match="have changed"):
            replaced(table, began)
    else:
        assert replaced(table, began) == {"m", "zz"}


def test_files_of_an_earlier_partitioning_refuse_an_overwrite_of_partitions(table: Table) -> None:
    old = Manifest(1, [entry(ADDED, 1, file("a", spec=7))], partition_spec_id=7)
    began = table.commit([file("b")], extra=[old])

    with pytest.raises(OccupiedError, match="partitioning has changed"):
        replaced(table, began, {"x"})
    assert replaced(table, began) == {"a", "b"}


@pytest.mark.parametrize(
    "nothing",
    [
        Manifest(1, [entry(ADDED, 1, file("d"))], ManifestContent.DELETES, partition_spec_id=7),
        Manifest(1, [entry(DELETED, 1, file("d"))], partition_spec_id=7),
    ],
)
def test_no_files_of_an_earlier_partitioning_refuse_nothing(
    table: Table, nothing: Manifest
) -> None:
    began = table.commit([file("b")], extra=[nothing])

    assert replaced(table, began, {"x"}) == {"b"}


def test_a_token_counts_in_any_snapshot_and_among_those_kept() -> None:
    table = Table(properties={"longhaul.published": "one two"})
    for token in ("three", "four"):
        table.commit()
        table.snapshots[-1].summary = Summary(Operation.APPEND, **{TOKEN: token})
    stand_in: Any = table

    assert [is_published(stand_in, each) for each in ("one", "two", "three", "four", "on")] == [
        *[True] * 4,
        False,
    ]


def test_a_compaction_leaves_the_rows_to_the_snapshot_that_brought_them(table: Table) -> None:
    table.commit([file("a")])
    old = file("b")
    wrote = table.commit([old])
    table.commit([file("c")], [old], operation=Operation.REPLACE)
    latest: Any = table.snapshots[-1]

    assert written_by(table.metadata, latest).snapshot_id == wrote
    # Where it has expired, all that is known is the compaction.
    del table.snapshots[wrote - 1]
    assert written_by(table.metadata, latest) is latest


def of_run(run: int, job: str = "a", attempt: int = 1) -> str:
    return f"{job * 20}-{1_767_323_045_000 + run}-{attempt}"


def replaced_again(table: Table) -> set[str]:
    stand_in: Any = table
    return {each.file_path for each in added_before(stand_in, of_run(5))}


def test_append_that_runs_again_replaces_what_earlier_runs_of_its_job_added(table: Table) -> None:
    for run, job in ((1, "a"), (1, "b"), (3, "a")):
        table.commit([file(f"data/{of_run(run, job)}/1.parquet")], token=of_run(run, job))

    assert replaced_again(table) == {f"data/{of_run(run)}/1.parquet" for run in (1, 3)}
    del table.snapshots[0]  # it has expired
    assert len(replaced_again(table)) == 2


def test_append_that_runs_again_replaces_its_rows_where_a_compaction_has_put_them(
    table: Table,
) -> None:
    table.commit([old := file(f"data/{of_run(1)}/1.parquet")], token=of_run(1))
    table.commit([other := file("other")])
    table.commit([new := file("compacted")], [old], operation=Operation.REPLACE)
    assert replaced_again(table) == {"compacted"}

    table.commit([file("mixed", rows=2)], [new, other], operation=Operation.REPLACE)
    # Not the error of what is tried again, which is one of these too.
    with pytest.raises(
        OccupiedError, match="cannot be told", check=lambda e: type(e) is OccupiedError
    ):
        replaced_again(table)


def test_append_of_an_earlier_run_never_comes_after_that_of_a_later_one(table: Table) -> None:
    table.commit([file(f"data/{of_run(6)}/1.parquet")], token=of_run(6))
    with pytest.raises(ReplacedError):
        replaced_again(table)


def test_append_whose_earlier_rows_cannot_be_told_any_more_does_not_run_again() -> None:
    table = Table(properties={PUBLISHED: f"{of_run(1, 'b')} {of_run(1)}"})
    table.commit([file("rewritten")])

    with pytest.raises(OccupiedError, match="cannot be told from others"):
        replaced_again(table)
