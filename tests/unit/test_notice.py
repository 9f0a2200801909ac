"""Events about ends, against the schema of docs/reference/events.md."""

import json
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from longhaul.core.dead_letter import refusal
from longhaul.core.lease import CommittedOutput, Lease, NamedOutput, State, key_hash
from longhaul.core.results import Results
from longhaul.notices import notice
from longhaul.notices.openlineage import PRODUCER, Place, run_events
from longhaul.outputs.lineage import InputRead, Origin, Writer, origin, requested
from longhaul.pipelines.backfill import Backfill, TreeEnd, Unwell
from tests.builders import NOW, running

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "events.md"
BLOCKS = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
EXAMPLE, SCHEMA = (json.loads(block) for block in BLOCKS[1:3])
TREE_EXAMPLE = next(json.loads(block) for block in BLOCKS if '"event": "tree_ended"' in block)
TYPES: dict[str, type] = {"string": str, "integer": int, "null": type(None), "object": dict}

output = CommittedOutput(
    1, 1, 1, prefix="s3://b/out/", results=Results({"day": 7}, None, {".": 3}, {"bad_rows": 2})
)
EVENTS = {
    "a success": notice.ended(
        running(state=State.SUCCEEDED, output=output, last_class="succeeded", settled_at=NOW)
    ),
    "a death": notice.ended(
        running(state=State.DEAD, failures=3, last_class="failed", last_error="x", settled_at=NOW)
    ),
    "a cancel": notice.ended(running(state=State.CANCELLED, last_class="cancelled")),
    "an invalid body": notice.refused("main", refusal("invalid_request", "x", NOW), "m-1", NOW),
    "a join": notice.refused("main", refusal("incomplete_join", "x", NOW, "main#j"), None, NOW),
}


def check(event: dict[str, Any]) -> None:
    assert list(event) == SCHEMA["required"] == list(SCHEMA["properties"])
    for name, value in event.items():
        rule = SCHEMA["properties"][name]
        if not rule.keys() - {"description"}:  # anything
            continue
        if "type" in rule:
            kinds = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
            assert isinstance(value, tuple(TYPES[kind] for kind in kinds)), name
        else:
            assert value in rule.get("enum", [rule.get("const")]), name


@pytest.mark.parametrize("what", EVENTS)
def test_an_event_is_as_the_page_says(what: str) -> None:
    event = json.loads(EVENTS[what].body)
    check(event)
    assert event["id"] == EVENTS[what].id


def test_the_pages_example_is_as_its_schema_says() -> None:
    check(EXAMPLE)


def test_the_end_of_a_tree_is_told_as_the_page_says() -> None:
    died = Unwell("parse", "2013/parse/5f0c…", "July", "DEAD", "failed")
    jobs = {"main": {"SUCCEEDED": 1}, "parse": {"SUCCEEDED": 6, "DEAD": 1}, "report": {"WAITS": 1}}
    root = running(
        key="main#2013",
        run=TREE_EXAMPLE["run"],
        label="The year 2013",
        state=State.SUCCEEDED,
    )
    ended_at = datetime.fromisoformat(TREE_EXAMPLE["ended_at"])
    told = notice.tree_ended(root, TreeEnd(jobs, (died,), ended_at, 1, "5f0c22a1b7d3e984"))
    digest = TREE_EXAMPLE["id"].partition("-")[0]
    assert json.loads(told.body) == {
        **TREE_EXAMPLE,
        "id": TREE_EXAMPLE["id"].replace(digest, root.id.key_hash),
    }
    assert told.detail_type == "Longhaul Tree Ended"
    assert told.subject == notice.ended(root).subject


@pytest.mark.parametrize(
    ("states", "outcome"),
    [
        ({"SUCCEEDED": 2}, "SUCCEEDED"),
        ({"SUCCEEDED": 2, "CANCELLED": 1}, "CANCELLED"),
        ({"CANCELLED": 2, "DEAD": 1, "WAITS": 1}, "DEAD"),
    ],
)
def test_a_tree_is_dead_if_one_of_its_jobs_is(states: dict[str, int], outcome: str) -> None:
    assert TreeEnd({"main": {"SUCCEEDED": 1}, "next": states}, (), NOW, 1, "").outcome == outcome


def test_a_later_run_has_another_id_and_a_later_attempt_the_same() -> None:
    row = running(state=State.DEAD)
    first, again = notice.ended(row), notice.ended(running(state=State.DEAD, attempt=7))
    other = notice.ended(running(state=State.DEAD, run=row.run + 1))
    assert first.id == again.id != other.id
    assert first.subject == other.subject


@pytest.mark.parametrize(
    ("message_id", "key", "job_id", "subject"),
    [
        ("m-1", "main#j", "j", "main#m-1"),
        (None, "main#j", "j", "main#j"),
        (None, None, None, "main"),
    ],
)
def test_a_refusal_names_its_message_and_its_job(
    message_id: str | None, key: str | None, job_id: str | None, subject: str
) -> None:
    found = notice.refused("main", refusal("incomplete_join", "x", NOW, key), message_id, NOW)
    assert found.subject == key_hash(subject)
    assert json.loads(found.body) == {
        "version": 1,
        "id": f"{key_hash(subject)}-refused",
        "stage": "main",
        "job_id": job_id,
        "label": None,
        "tags": {},
        "run": None,
        "message_id": message_id,
        "outcome": "REFUSED",
        "class": "incomplete_join",
        "attempts": 0,
        "output": None,
        "outputs": {},
        "reason": "x",
        "ended_at": NOW.isoformat(timespec="milliseconds"),
        "result": None,
        "rows": {},
        "metrics": {},
    }


def test_an_event_says_what_people_call_the_job() -> None:
    row = running(state=State.DEAD, label="7 October", tags={"day": "7"})
    why = refusal("conflicting_job_id", "x", NOW, "main#j", row)
    for each in (notice.ended(row), notice.refused("main", why, "m-1", NOW)):
        event = json.loads(each.body)
        assert (event["label"], event["tags"]) == ("7 October", {"day": "7"})


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (running(state=State.DEAD, failures=3, interruptions=4), {"attempts": 7}),
        (
            running(state=State.DEAD, output=output),
            {"output": None, "result": None, "rows": {}, "metrics": {}},
        ),
        (
            running(state=State.SUCCEEDED, output=output, last_error="of an earlier attempt"),
            {"result": {"day": 7}, "rows": {".": 3}, "metrics": {"bad_rows": 2}, "reason": None},
        ),
        (
            running(
                state=State.SUCCEEDED,
                output=replace(output, beside=(NamedOutput("report", 1, 1, "s3://b/report/"),)),
            ),
            {"outputs": {"report": "s3://b/report/"}},
        ),
    ],
    ids=["tries", "a death", "a success", "several outputs"],
)
def test_an_end_counts_its_tries_and_only_a_success_has_outputs_and_results(
    row: Lease, told: dict[str, Any]
) -> None:
    event = json.loads(notice.ended(row).body)
    assert {name: event[name] for name in told} == told


@pytest.mark.parametrize(
    ("state", "unsent", "outcome"),
    [("SUCCEEDED", 0, "SUCCEEDED"), ("SUCCEEDED", 3, "CANCELLED"), ("DEAD", 3, "DEAD")],
)
def test_a_backfill_is_told_under_its_name_with_what_was_not_sent(
    state: str, unsent: int, outcome: str
) -> None:
    end = TreeEnd({"main": {state: 2}}, (), NOW, 4, "5f0c", unsent)
    told = notice.tree_ended(Backfill("main#oct", (), ("03",) * unsent, cancelled_at=NOW), end)
    assert told.id == f"{told.subject}-backfill-tree-5f0c"
    assert told.detail_type == "Longhaul Tree Ended"
    said = json.loads(told.body)
    assert (said["job_id"], said["run"], said["tags"]) == ("oct", None, {"backfill": "oct"})
    assert (said["outcome"], said["unsent"], said["sequence"]) == (outcome, unsent, 4)


# Runs as OpenLineage's standard says them: as its own client would write them.


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


def test_each_of_several_outputs_is_a_dataset_with_its_own_rows() -> None:
    beside = (
        NamedOutput("report", 1, 10, "s3://data/report/"),
        NamedOutput("daily", 1, 10, "table://lake/daily"),
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
