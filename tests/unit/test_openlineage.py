"""Runs as OpenLineage's standard says them: as its own client would write them."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from longhaul.core.lease import AttemptId, CommittedOutput, Lease, NamedOutput, State
from longhaul.core.results import Results
from longhaul.notices.openlineage import PRODUCER, Place, run_events
from longhaul.outputs.lineage import InputRead, Origin, Writer, origin, requested
from tests.builders import NOW, running

PLACE = Place.of("arn:aws:states:eu-central-1:123456789012:stateMachine:Longhaul", "Longhaul")
CATALOG = "arn:aws:glue:eu-central-1:123456789012"
WRITER = Writer(place="table://lake/raw", key="clean#1", run=1767323045000, attempt=2)
READ = [
    InputRead(name="raw", path="s3://landing/raw/*/a.csv", files=3, size_bytes=9, digest="ab12"),
    InputRead(
        name="clean",
        path="table://lake/raw",
        files=1,
        size_bytes=5,
        digest="cd34",
        snapshot=4711,
        writers=(WRITER,),
    ),
    InputRead(name="one", path="s3://landing/one.csv", files=1, size_bytes=2, etag='"e1"'),
    InputRead(name="again", path="s3://landing/one.csv", files=1, size_bytes=2, etag='"e1"'),
]


def success(prefix: str, rows: dict[str, int] | None = None) -> Lease:
    results = Results(rows=rows) if rows else None
    output = CommittedOutput(1, 4, 400, prefix=prefix, results=results)
    return running(state=State.SUCCEEDED, output=output, settled_at=NOW)


def events(lease: Lease, read: Origin | None = None) -> list[dict[str, Any]]:
    found = run_events(lease, read or origin(lease.id, NOW, READ), PLACE)
    assert len({each.id for each in found}) == len(found)
    assert {each.detail_type for each in found} == {"OpenLineage Run Event"}
    return [json.loads(each.body) for each in found]


def named(datasets: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["namespace"], each["name"]) for each in datasets]


def test_a_success_says_what_was_read_and_written_in_which_version() -> None:
    start, end = events(success("s3://data/out/", {".": 7}))

    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"] == end["run"]
    assert datetime.fromisoformat(start["eventTime"]).timestamp() * 1000 == running().run
    assert end["eventTime"] == NOW.isoformat(timespec="milliseconds")
    assert named(end["inputs"]) == [
        ("s3://landing", "raw"),
        (CATALOG, "table/lake/raw"),
        ("s3://landing", "one.csv"),
    ]
    versions = [each["facets"]["version"]["datasetVersion"] for each in end["inputs"]]
    assert versions == ["ab12", WRITER.id.token, "e1"]
    (output,) = end["outputs"]
    assert named([output]) == [("s3://data", "out")]
    # As the next job's event names what it read.
    assert output["facets"]["version"]["datasetVersion"] == running().id.token
    said = output["outputFacets"]["outputStatistics"]
    assert (said["rowCount"], said["size"], said["fileCount"]) == (7, 400, 4)


def test_each_dataset_of_a_table_output_is_a_table() -> None:
    _, end = events(success("table://lake/daily", {".": 7, "bad-rows": 1}))

    assert named(end["outputs"]) == [
        (CATALOG, "table/lake/daily"),
        (CATALOG, "table/lake/daily__bad_rows"),
    ]


def test_each_of_several_outputs_is_a_dataset_with_its_own_rows() -> None:
    beside = (
        NamedOutput("report", "s3://data/report/", 1, 10),
        NamedOutput("daily", "table://lake/daily", 1, 10),
    )
    rows = {".": 7, "outputs.report": 5, "outputs.daily": 3, "outputs.daily/bad": 1}
    output = CommittedOutput(
        1, 4, 400, prefix="s3://data/out/", results=Results(rows=rows), beside=beside
    )

    _, end = events(running(state=State.SUCCEEDED, output=output, settled_at=NOW))

    assert named(end["outputs"]) == [
        ("s3://data", "out"),
        ("s3://data", "report"),
        (CATALOG, "table/lake/daily"),
        (CATALOG, "table/lake/daily__bad"),
    ]
    counts = [each["outputFacets"]["outputStatistics"]["rowCount"] for each in end["outputs"]]
    assert counts == [7, 5, 3, 1]


@pytest.mark.parametrize(("state", "kind"), [(State.DEAD, "FAIL"), (State.CANCELLED, "ABORT")])
def test_what_did_not_succeed_wrote_nothing(state: State, kind: str) -> None:
    lease = running(state=state, last_error="it broke", settled_at=NOW)
    asked = [requested("a", "s3://data/a/"), requested("t", "table://lake/t@17?name = 'secret'")]

    start, end = events(lease, origin(lease.id, NOW, asked))

    assert (start["eventType"], end["eventType"]) == ("START", kind)
    assert named(end["inputs"]) == [("s3://data", "a"), (CATALOG, "table/lake/t")]
    assert not any("facets" in each or "inputFacets" in each for each in end["inputs"])
    assert end["outputs"] == []
    assert "secret" not in json.dumps(end)
    said = end["run"].get("facets", {}).get("errorMessage", {}).get("message")
    assert said == ("it broke" if state is State.DEAD else None)


def test_another_run_and_another_stack_have_another_id() -> None:
    lease = success("s3://data/out/")
    other = Place.of("arn:aws:states:eu-central-1:123456789012:stateMachine:Longhaul", "Other")
    ids = {
        json.loads(event.body)["run"]["runId"]
        for each, place in (
            (lease, PLACE),
            (running(state=State.CANCELLED, run=lease.run + 1), PLACE),
            (lease, other),
        )
        for event in run_events(each, origin(each.id, NOW, []), place)
    }
    assert len(ids) == 3


def test_an_event_is_far_from_what_a_bus_takes() -> None:
    writers = [
        Writer(place=f"s3://data/out-{n}/", key="clean#1", run=1, attempt=1) for n in range(10)
    ]
    reads = [
        InputRead(name=f"i{n}", path=f"s3://b/{n}/*/", digest="ab", writers=tuple(writers))
        for n in range(5_000)
    ]
    reads += [requested(f"r{n}", f"s3://b/{n}/") for n in range(5_000)]
    lease = success("s3://data/out/")
    whole = origin(AttemptId(lease.key, lease.run, 1), datetime.now(UTC), reads)

    for each in run_events(lease, whole, PLACE):
        assert len(each.body.encode()) < 200_000


@pytest.mark.parametrize(
    "lease",
    [
        success("s3://data/out/", {".": 7}),
        success("table://lake/daily", {".": 7}),
        running(state=State.DEAD, last_error="it broke", settled_at=NOW),
        running(state=State.CANCELLED, settled_at=NOW),
    ],
    ids=["prefix", "table", "dead", "cancelled"],
)
def test_openlineages_own_client_writes_the_same(lease: Lease) -> None:
    """Its classes are made from the standard's schemas, whose versions they name."""
    pytest.importorskip("openlineage.client", reason="requirements-dev.txt has it")
    from openlineage.client import event_v2, facet_v2  # noqa: PLC0415 - may not be there
    from openlineage.client.serde import Serde  # noqa: PLC0415 - as above

    kinds: dict[str, Any] = {
        "version": facet_v2.dataset_version_dataset.DatasetVersionDatasetFacet,
        "errorMessage": facet_v2.error_message_run.ErrorMessageRunFacet,
        "inputStatistics": facet_v2.input_statistics_input_dataset.InputStatisticsInputDatasetFacet,
        "outputStatistics": (
            facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
        ),
        "jobType": facet_v2.job_type_job.JobTypeJobFacet,
    }

    def facets(said: dict[str, Any], name: str = "facets") -> dict[str, Any]:
        return {
            each: kinds[each](
                producer=PRODUCER, **{k: v for k, v in found.items() if not k.startswith("_")}
            )
            for each, found in said.get(name, {}).items()
        }

    def dataset(kind: Any, said: dict[str, Any], more: str) -> Any:
        names = {name: said[name] for name in ("namespace", "name")}
        return kind(**names, facets=facets(said), **{more: facets(said, more)})

    for event in events(lease):
        run, job = event["run"], event["job"]
        theirs = event_v2.RunEvent(
            eventType=event_v2.RunState(event["eventType"]),
            eventTime=event["eventTime"],
            run=event_v2.Run(runId=run["runId"], facets=facets(run)),
            job=event_v2.Job(namespace=job["namespace"], name=job["name"], facets=facets(job)),
            inputs=[dataset(event_v2.InputDataset, e, "inputFacets") for e in event["inputs"]],
            outputs=[dataset(event_v2.OutputDataset, e, "outputFacets") for e in event["outputs"]],
            producer=PRODUCER,
        )
        assert _filled(json.loads(Serde.to_json(theirs))) == _filled(event)


def _filled(said: Any) -> Any:
    """Without what is empty, which the standard lets be left out."""
    if isinstance(said, dict):
        return {name: _filled(each) for name, each in said.items() if each not in ({}, None, [])}
    return [_filled(each) for each in said] if isinstance(said, list) else said
