"""The buttons do the same as the commands, after a question."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from longhaul.cli.page import lists
from longhaul.cli.target import Target
from longhaul.core.verdict import OutcomeClass
from tests.builders import BODY, BUCKET, QUEUE_URL, there
from tests.cli.conftest import World
from tests.cli.page.conftest import Elements, Visitor, offered, visitor_of, words
from tests.cli.page.scenes import (
    EVIL,
    dead,
    member_id,
    multitude,
    started,
    succeeded,
    three_stages,
    tree,
)
from tests.cli.page.test_jobs import away
from tests.cli.test_tasks_page import CLICKS


def keys_asked(html: str) -> list[str | None]:
    """The keys of the jobs that a question is about."""
    return [each["value"] for each in Elements(html).of("input") if each.get("name") == "key"]


def ids_queued(world: World) -> list[str]:
    found = [each["MessageAttributes"]["job_id"]["StringValue"] for each in world.queued()]
    return sorted(found)


def test_a_question_changes_nothing_and_names_the_job_and_the_place(
    world: World, visitor: Visitor
) -> None:
    world.claim("job")
    asked = visitor.read("/ask/cancel", key="main#job")
    assert "Cancel job? What runs is stopped at the next report or beat" in words(asked)
    assert "stack Longhaul on AWS, us-east-1" in words(asked[asked.index('id="question"') :])
    row = there(world.parts.leases.load("main#job"))
    assert row.cancel_requested_at is None
    assert keys_asked(asked) == ["main#job"]


def test_cancelling_a_running_job_marks_it_and_shows_that_at_once(
    world: World, visitor: Visitor
) -> None:
    started(world, world.claim("job"))
    visitor.read("/job", stage="main", id="job")
    after = words(visitor.do("/do/cancel", key="main#job"))
    assert "✓ job: running: it is being stopped" in after
    assert "⊘ cancelling" in after
    row = there(world.parts.leases.load("main#job"))
    assert row.cancel_requested_at == world.clock.now()


@pytest.mark.parametrize("outcome", [OutcomeClass.PERMANENT, OutcomeClass.SUCCEEDED])
def test_a_job_that_has_ended_runs_again_with_the_button(
    world: World, visitor: Visitor, outcome: OutcomeClass
) -> None:
    world.end(world.claim("job"), outcome)
    assert "/ask/rerun?key=main%23job" in visitor.read("/job", stage="main", id="job")
    assert "and what it led to runs again" in visitor.read("/ask/rerun", key="main#job")
    assert "✓ job: runs again" in words(visitor.do("/do/rerun", key="main#job"))
    (message,) = world.queued()
    assert message["MessageAttributes"]["job_id"]["StringValue"] == "job"
    assert json.loads(message["Body"]) == BODY


def test_what_cannot_run_again_keeps_no_other_from_it_and_says_why(
    world: World, visitor: Visitor
) -> None:
    for name in "abcdefghi":
        world.end(world.claim(name, request_ref=f"requests/{name}"), OutcomeClass.PERMANENT)
    for name in "abcdefg":
        world.aws.s3.delete_object(Bucket=BUCKET, Key=f"requests/{name}")
    kept = world.parts.requests.get("requests/h")
    changed = json.dumps({**json.loads(kept.body), "job": "taken_out"})
    world.parts.requests.put("requests/h", replace(kept, body=changed))
    said = words(visitor.do("/do/rerun", key=[f"main#{name}" for name in "abcdefghi"]))
    assert "and 2 more: its request is no longer kept" in said
    assert "; h: " in said
    assert "i: runs again" in said
    assert ids_queued(world) == ["i"]


def test_a_run_is_cancelled_and_what_died_runs_again(world: World, pipeline: Visitor) -> None:
    root = tree(world, 6, 6)
    asked = words(pipeline.read("/ask/rerun-dead", key="main#year"))
    assert "Rerun what died in the run of year?" in asked
    assert "runs again" in pipeline.do("/do/rerun-dead", key="main#year")
    assert ids_queued(world) == [member_id(root, 3)]
    asked = words(pipeline.read("/ask/cancel-run", key="main#year"))
    assert "Cancel the run of year?" in asked
    assert "✓ 1 job cancelled" in words(pipeline.do("/do/cancel-run", key="main#year"))
    row = there(world.parts.leases.load(f"clean#{member_id(root, 4)}"))
    assert row.cancel_requested_at is not None


def test_a_filter_shows_what_matches_and_acts_on_exactly_that(
    world: World, pipeline: Visitor
) -> None:
    root = tree(world, 10, 10, label="2026-10-07")
    world.end(world.claim("other", label="2026-10-08"))
    given = {"text": "2026-10-07", "state": "DEAD"}
    page = pipeline.read("/", **given)
    assert "1 job matches." in words(page)
    assert "other" not in page
    keys = keys_asked(pipeline.read(offered(page, "rerun")))
    assert keys == [f"clean#{member_id(root, 3)}"]
    done = words(pipeline.do("/do/rerun", key=keys, window="6h", **given))
    assert "runs again" in done
    assert "1 job matches." in done  # the list with its filter
    assert len(world.queued()) == 1
    asked = pipeline.read(offered(pipeline.read("/", stage="clean", text="YEAR"), "cancel"))
    assert "Cancel 2 jobs?" in words(asked)
    pipeline.do("/do/cancel", key=keys_asked(asked))
    assert "⊘ cancelling 2" in words(pipeline.read("/job", stage="main", id="year"))
    assert "0 jobs match." in words(pipeline.read("/", text="team=web"))


def test_a_stage_is_paused_and_resumed(world: World, visitor: Visitor) -> None:
    assert "Pause main?" in words(visitor.read("/ask/pause", stage="main"))
    after = words(visitor.do("/do/pause", stage="main"))
    assert "✓ main is paused" in after
    assert "Resume main" in after
    assert world.parts.slots.use(world.settings.stages[0]).paused_at is not None
    visitor.do("/do/resume", stage="main")
    assert world.parts.slots.use(world.settings.stages[0]).paused_at is None


def test_a_refusal_of_aws_is_reported_and_the_page_goes_on(world: World, visitor: Visitor) -> None:
    dead(world, "job", "why")
    around, world.aws.gate.around = world.aws.gate.around, away
    answer = visitor.post("/do/rerun", key="main#job")
    assert visitor.get("/ask/cancel", key="main#job").status_code == 502
    world.aws.gate.around = around
    assert "✗ AWS could not be asked" in words(visitor.read(answer.headers["Location"]))


@pytest.mark.parametrize("path", ["/do/cancel", "/do/rerun-dead", "/do/pause"])
@pytest.mark.parametrize("key", [None, "", EVIL, "nowhere#x", "main#"])
def test_an_act_on_what_is_no_job_does_nothing(
    world: World, visitor: Visitor, path: str, key: str | None
) -> None:
    world.aws.gate.counts.clear()
    form = {} if key is None else {"key": key, "stage": key or "nowhere"}
    assert visitor.post(path, **(form or {"stage": "nowhere"})).status_code == 404
    assert not world.aws.gate.counts


# Dead letters, schedules, and what the command's page says to click.


def test_each_letter_is_shown_with_its_reason_and_stays_visible_to_others(
    world: World, visitor: Visitor
) -> None:
    ids = [world.bury(f"job-{n}", "failed", f"reason {n}") for n in range(12)]
    page = words(visitor.read("/dead-letters", stage="main"))
    assert "job-7 failed 0s ago 3 reason 7" in page
    assert all(each in page for each in ids)
    assert world.dead() == ids


def test_only_this_page_receives_letters_and_it_does_not_refresh(
    world: World, visitor: Visitor
) -> None:
    world.bury("job")
    for path in ("/", "/job?id=job", "/ask/rerun?key=main%23job"):
        visitor.get(path)
    assert world.aws.gate.counts["sqs.ReceiveMessage"] == 0
    assert "data-refresh" not in visitor.read("/dead-letters")
    assert world.aws.gate.counts["sqs.ReceiveMessage"] > 0


def test_a_job_that_is_still_dead_of_a_letter_runs_again(world: World, visitor: Visitor) -> None:
    rows = [dead(world, f"day-{n}", f"missing input: s3://b/{n}.csv") for n in range(3)]
    world.again(rows[2])
    # A conflict tells of another request under the id of a dead job.
    world.bury("day-0", "conflicting_job_id", "day-0 is another request")
    page = visitor.read("/dead-letters", stage="main")
    assert "day-2 ▶ running permanent" in words(page)
    links = [str(each["href"]) for each in Elements(page).of("a") if "data-ask" in each]
    assert [keys_asked(visitor.read(each)) for each in links] == [["main#day-0"], ["main#day-1"]]
    same = visitor.read("/", window="7d", state="DEAD", text="missing input")
    assert "Rerun 2 of them" in words(same)


# What is read when a person asks: the schedules. The tables are in test_table.py.


@pytest.mark.parametrize(
    ("state", "is_installed", "following"),
    [
        ("ENABLED", True, "in 22h55m (2026-01-03 02:00:00Z)"),
        ("ENABLED", False, ""),
        ("DISABLED", True, "off"),
    ],
)
def test_a_schedule_is_shown_with_its_next_firing(
    world: World,
    target: Target,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    following: str,
    *,
    is_installed: bool,
) -> None:
    def get_schedule(Name: str) -> dict[str, Any]:  # noqa: N803 - boto3's
        assert Name == "Longhaul-main"
        return {
            "ScheduleExpression": "cron(0 3 * * ? *)",
            "ScheduleExpressionTimezone": "Europe/Berlin",
            "CreationDate": world.clock.now() - timedelta(days=1),
            "State": state,
            "Target": {"Input": json.dumps({"QueueUrl": QUEUE_URL})},
        }

    monkeypatch.setattr(lists, "find_spec", lambda _: is_installed or None)
    monkeypatch.setattr(
        world.aws, "scheduler", SimpleNamespace(get_schedule=get_schedule), raising=False
    )
    stack = world.aws.cloudformation.stacks["Longhaul"]
    schedule = {"Schedule1": ("AWS::Scheduler::Schedule", "Longhaul-main")}
    world.deploy(resources={**stack.resources, **schedule})
    page = words(visitor_of(target).read("/schedules"))
    assert page.endswith(f"main cron(0 3 * * ? *) Europe/Berlin {following}".rstrip())


# What docs/reference/cli.md says to click is there.


NAMES = [name for each in CLICKS for name in re.findall(r"\*\*(.+?)\*\*", each)]


@pytest.fixture
def pages(world: World, visitor: Visitor) -> list[str]:
    """The pages of a stack in which everything on the list can be done."""
    for n in range(2):
        dead(world, f"dead-{n}", f"no such file: part-{n}")
        succeeded(world, f"done-{n}", 60)
        world.claim(f"runs-{n}")
    multitude(world, 200)
    found = [
        visitor.read("/", window="7d"),
        *(visitor.read("/", window="7d", text=text) for text in ("dead-", "runs-")),
        visitor.read("/dead-letters"),
        visitor.read("/job", stage="main", id="done-1"),
    ]
    world.run("stage", "pause", "main")
    world.clock.advance(2)
    return [*found, visitor.read("/", window="7d")]


def test_each_name_that_the_page_says_to_click_is_there(pages: list[str]) -> None:
    shown = "\n".join(map(words, pages))
    trees = {"Cancel the run", "Rerun what died"}
    assert len(NAMES) > 10
    assert [name for name in NAMES if name not in trees and name not in shown] == []


def test_so_are_those_of_a_tree(world: World, visitor: Visitor) -> None:
    three_stages(world)
    tree(world, 10, 8)
    shown = words(visitor.read("/job", stage="main", id="year"))
    assert "Cancel the run" in shown
    assert "Rerun what died" in shown
