"""Events about ends, against the schema of docs/reference/events.md."""

import json
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from longhaul.core.dead_letter import refusal
from longhaul.core.lease import CommittedOutput, NamedOutput, State, key_hash
from longhaul.core.results import Results
from longhaul.core.tree_end import TreeEnd, Unwell
from longhaul.notices import notice
from longhaul.pipelines.backfill import Backfill
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


def test_an_end_counts_what_was_tried() -> None:
    dead = notice.ended(running(state=State.DEAD, failures=3, interruptions=4))
    assert json.loads(dead.body)["attempts"] == 7


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


def test_a_success_after_failures_has_no_reason() -> None:
    done = notice.ended(running(state=State.SUCCEEDED, output=output, last_error="x"))
    assert json.loads(done.body)["reason"] is None


def test_a_success_names_all_its_outputs() -> None:
    several = replace(output, beside=(NamedOutput("report", "s3://b/report/", 1, 1),))
    done = notice.ended(running(state=State.SUCCEEDED, output=several))
    assert json.loads(done.body)["outputs"] == {"report": "s3://b/report/"}


def test_only_a_success_has_an_output_and_results() -> None:
    dead = json.loads(notice.ended(running(state=State.DEAD, output=output)).body)
    assert (dead["output"], dead["result"], dead["rows"], dead["metrics"]) == (None, None, {}, {})
    done = json.loads(notice.ended(running(state=State.SUCCEEDED, output=output)).body)
    assert (done["result"], done["rows"], done["metrics"]) == (
        *({"day": 7}, {".": 3}, {"bad_rows": 2}),
    )


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
