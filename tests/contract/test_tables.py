"""Exactly once into an Iceberg table, whoever publishes, how often, and what gets lost."""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from threading import RLock
from typing import Any, cast

import pytest
from moto.core.botocore_stubber import BotocoreStubber

from longhaul.core.errors import PermanentJobError, TooLargeError, VoidCommitError
from longhaul.core.lease import AttemptId
from longhaul.core.places import TablePath
from longhaul.core.settings import PathPolicy
from longhaul.local.moto_repairs import glue as glue_repairs
from longhaul.outputs.iceberg.file_io import BotoFileIO
from longhaul.outputs.iceberg.history import summary_of
from longhaul.outputs.lineage import InputRead, origin, origin_in, results_in
from longhaul.wiring import Wiring
from simulation.aws.cloud import FakeAws
from simulation.aws.shapes import checked
from tests.builders import settings, there
from tests.contract.lake import BUCKET, PATH, RUN, Glue, Lake, at_once
from tests.contract.moto_account import moto_account
from tests.servers import repaired


@pytest.fixture(params=["strict", "moto"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    if request.param == "strict":
        fake = FakeAws(around=checked)
        yield Lake(tmp_path, fake.client)
        return
    # As moto's server in the embedded AWS: stock moto closes content while another thread reads it.
    process, lock = BotocoreStubber.process_request, RLock()

    def one_at_a_time(stubber: BotocoreStubber, request: Any) -> Any:
        with lock:
            return process(stubber, request)

    with repaired(glue_repairs.versions) as patches, moto_account() as client:
        patches.replace(BotocoreStubber, "process_request", one_at_a_time)
        yield Lake(tmp_path, client)


def test_nothing_is_visible_before_the_publish(lake: Lake) -> None:
    lake.upload("a", [(1, "x")])

    assert lake.tables.load(PATH) is None


def test_a_snapshot_says_what_its_attempt_had_read_and_what_its_job_returned(lake: Lake) -> None:
    attempt = AttemptId("main#a", 1, 1)
    read = InputRead(name="raw", path="s3://data/raw/", files=1, size_bytes=9, digest="ab12")
    whole = origin(attempt, dt.datetime(2026, 10, 7, tzinfo=dt.UTC), [read])
    lake.origin = whole
    lake.add("a", [(1, "x")], datasets=(".", "days"))

    for path in (PATH, PATH.of_dataset("days")):
        table = lake.table(path)
        snapshot = there(table.current_snapshot())
        assert origin_in(summary_of(snapshot)) == whole
        assert results_in(summary_of(snapshot)).value == {"days": 7}


def test_appends_at_once_lose_none(lake: Lake) -> None:
    outputs = [lake.upload(str(n), [(n, "x")]) for n in range(5)]

    assert at_once([lambda output=output: lake.publish(output) for output in outputs]) == []
    assert lake.rows() == [(n, "x") for n in range(5)]


def test_append_of_a_later_run_replaces_the_rows_of_the_earlier_one_of_its_job(lake: Lake) -> None:
    first = lake.add("a", [(1, "x"), (2, "x")], run=RUN)
    lake.add("b", [(3, "y")], run=RUN)
    again = lake.add("a", [(1, "new")], run=RUN + 1)
    for output in (first, again):  # by publishers that are late
        lake.publish(output)

    assert lake.rows() == [(1, "new"), (3, "y")]


def test_publishers_of_one_output_at_once_add_it_once(lake: Lake) -> None:
    output = lake.upload("a", [(1, "x")])

    assert at_once([lambda: lake.publish(output)] * 3) == []
    assert lake.rows() == [(1, "x")]
    assert len(lake.tokens()) == 1


def test_an_output_counts_as_published_when_its_snapshot_has_expired(lake: Lake) -> None:
    output = lake.add("a", [(1, "x")])
    lake.add("b", [(2, "x")])
    table = lake.table()
    table.maintenance.expire_snapshots().by_id(table.metadata.snapshots[0].snapshot_id).commit()

    lake.publish(output)

    assert len(lake.tokens()) == 1
    assert lake.rows() == [(1, "x"), (2, "x")]


def test_functions_read_no_table_that_takes_more_memory_than_they_have(lake: Lake) -> None:
    lake.add("a", [(1, "x")])
    output = lake.upload("b", [(2, "y")])
    lake.replace_metadata(b"[" + b" " * 30_000_000 + b"]")

    wiring = Wiring(settings(paths=PathPolicy(data_bucket=BUCKET)), lake.client)
    with pytest.raises(TooLargeError, match=r"\.metadata\.json has more than 29,360,128 bytes"):
        wiring.publisher.publish(output)


def test_an_overwrite_replaces_what_it_saw_and_keeps_what_came_since(lake: Lake) -> None:
    lake.add("old", [(1, "x")])
    output = lake.upload("new", [(2, "x")], "overwrite")
    lake.add("meanwhile", [(3, "x")])

    lake.publish(output)

    assert lake.rows() == [(2, "x"), (3, "x")]


def test_an_overwrite_of_partitions_leaves_the_others(lake: Lake) -> None:
    lake.add("old", [(1, "x"), (2, "y"), (3, None)], by=["p"])

    lake.add("new", [(4, "y"), (5, "z"), (6, None)], "overwrite_partitions")

    assert lake.rows() == [(1, "x"), (4, "y"), (5, "z"), (6, None)]


def test_files_are_not_replaced_when_a_column_that_partitioned_some_was_dropped(lake: Lake) -> None:
    lake.add("old", [(1, "x")], by=["p"])
    table = lake.table()
    with table.update_spec() as specs:
        specs.remove_field("p")
    with table.update_schema(allow_incompatible_changes=True) as columns:
        columns.delete_column("p")

    with pytest.raises(PermanentJobError, match="write to another table"):
        lake.upload("new", [(2,)], "overwrite", columns={"n": "long"})

    lake.add("more", [(3,)], columns={"n": "long"})
    assert lake.rows() == [(1,), (3,)]


def test_files_are_replaced_where_none_is_left_that_a_dropped_column_partitioned(
    lake: Lake,
) -> None:
    lake.add("old", [(1, "x")], by=["p"])
    table = lake.table()
    with table.update_spec() as specs:
        specs.remove_field("p")
    lake.add("new", [(2, "x")], "overwrite")
    with lake.table().update_schema(allow_incompatible_changes=True) as columns:
        columns.delete_column("p")

    lake.add("newer", [(3,)], "overwrite", columns={"n": "long"})
    assert lake.rows() == [(3,)]


def test_a_void_deletes_no_completed_file(lake: Lake) -> None:
    """Another publisher may be about to commit them."""
    output = lake.upload("a", [(1, "x")], "error")

    def meanwhile() -> None:
        lake.add("b", [(2, "x")], "error")

    with pytest.raises(VoidCommitError):
        lake.publish(output, Glue(lake.glue, 0, "", before=meanwhile))
    lake.publisher().discard(AttemptId("main#a", 1, 1))

    listed = lake.s3.list_objects_v2(Bucket=BUCKET, Prefix="tables/lake/flights/data/")
    assert listed["KeyCount"] == 2


def test_new_columns_are_added_and_types_widened(lake: Lake) -> None:
    lake.add("a", [(1, "x")], columns={"n": "integer", "p": "string"})
    lake.add("b", [(2**40, "y", 0.5)], columns={"n": "long", "p": "string", "more": "double"})
    lake.add("c", [(3,)], columns={"n": "integer"})

    assert lake.rows() == [(1, "x", None), (3, None, None), (2**40, "y", 0.5)]


def test_a_column_of_another_kind_is_named_with_both_types(lake: Lake) -> None:
    lake.add("a", [(1, "x")])

    with pytest.raises(PermanentJobError, match="column n is long in the table, and string in"):
        lake.upload("b", [("1", "x")], columns={"n": "string", "p": "string"})


def test_columns_that_were_added_meanwhile_make_the_job_run_again(lake: Lake) -> None:
    """Both chose the same field id: a reader would take one column for the other."""
    lake.add("a", [(1, "x")])
    late = lake.upload("b", [(2, 0.5)], columns={"n": "long", "mine": "double"})
    lake.add("c", [(3, "y")], columns={"n": "long", "theirs": "string"})

    with pytest.raises(VoidCommitError, match="columns changed"):
        lake.publish(late)
    again = lake.upload("b", [(2, 0.5)], columns={"n": "long", "mine": "double"}, attempt=2)
    lake.publish(again)

    assert lake.rows() == [
        (1, "x", None, None),
        (2, None, None, 0.5),
        (3, None, "y", None),
    ]


def test_a_column_that_was_dropped_and_added_again_does_not_get_its_values_back(
    lake: Lake,
) -> None:
    lake.add("a", [(1, "x")])
    table = lake.table()
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("p")

    lake.add("b", [(2, "y")])

    assert lake.rows() == [(1, None), (2, "y")]


def test_a_table_that_is_partitioned_decides(lake: Lake) -> None:
    lake.add("a", [(1, "x")], by=["p"])

    with pytest.raises(PermanentJobError, match="is partitioned by p, and the job asks for n"):
        lake.upload("b", [(2, "y")], by=["n"])


def test_a_partition_may_have_the_name_that_a_column_has_already(lake: Lake) -> None:
    row = (1, dt.date(2026, 1, 31), "x")
    columns = {"n": "long", "at": "date", "at_day": "string"}

    lake.add("a", [row], by=["day(at)"], columns=columns)
    lake.add("b", [row], "overwrite_partitions", columns=columns)

    assert lake.rows() == [row]


def test_named_datasets_become_tables_of_their_own(lake: Lake) -> None:
    output = lake.add("a", [(1, "x")], datasets=(".", "as-json"))
    lake.publish(output)

    assert lake.rows() == lake.rows(TablePath("lake", "flights__as_json")) == [(1, "x")]


def test_an_output_without_rows_is_published_once(lake: Lake) -> None:
    lake.add("a", [(1, "x")])
    output = lake.add("b", [], "overwrite")
    lake.publish(output)

    assert lake.rows() == []
    assert len(lake.tokens()) == 2


def test_what_is_no_iceberg_table_is_left_alone(lake: Lake) -> None:
    lake.glue.create_table(
        DatabaseName="lake", TableInput={"Name": "flights", "Parameters": {"table_type": "HIVE"}}
    )

    with pytest.raises(PermanentJobError, match="is no Iceberg table"):
        lake.upload("a", [(1, "x")])


def test_a_table_elsewhere_is_left_alone(lake: Lake) -> None:
    lake.add("a", [(1, "x")])
    table = lake.table()
    lake.tables.catalog.create_table(("lake", "other"), table.schema(), f"s3://{BUCKET}/other")

    with pytest.raises(PermanentJobError, match="is at s3://data/other: Longhaul writes to"):
        lake.upload("b", [(2, "x")], path=TablePath("lake", "other"))


def test_a_published_output_stays_so_whatever_others_make_of_the_table(lake: Lake) -> None:
    output = lake.upload("a", [(1, "x")])
    more = lake.upload("b", [(2, "x")])
    lake.publish(output)
    table = lake.table()
    place = table.metadata_location.removeprefix(f"s3://{BUCKET}/")
    metadata = json.loads(lake.s3.get_object(Bucket=BUCKET, Key=place)["Body"].read())
    newer = json.dumps({**metadata, "format-version": 3, "next-row-id": 0})
    lake.s3.put_object(Bucket=BUCKET, Key=place, Body=newer.encode())

    lake.publish(output)

    with pytest.raises(VoidCommitError, match="has Iceberg's format 3"):
        lake.publish(more)


def test_a_put_that_failed_is_not_made_again_when_its_stream_is_collected() -> None:
    class Refusing:
        puts = 0

        def put_object(self, **_: Any) -> None:
            self.puts += 1
            raise ConnectionError

    client = Refusing()
    stream = BotoFileIO(cast("Any", client)).new_output("s3://data/manifest.avro").create()
    with pytest.raises(ConnectionError):
        stream.close()
    del stream

    assert client.puts == 1
