"""The buttons do the same as the commands, after a question."""

import json

import pytest

from longhaul.domain.lease import State
from longhaul.domain.verdict import OutcomeClass
from tests.builders import BODY
from tests.cli.conftest import World
from tests.cli.page.conftest import Elements, Visitor, words
from tests.cli.page.scenes import EVIL, dead, started
from tests.cli.page.test_jobs import away


def test_a_question_changes_nothing_and_names_the_job_and_the_place(
    world: World, visitor: Visitor
) -> None:
    world.claim("job")
    asked = visitor.read("/ask/cancel", stage="main", id="job")
    assert "Cancel job? It runs: its task is stopped at the next report or beat" in words(asked)
    assert "stack Longhaul on AWS, us-east-1" in words(asked[asked.index('id="question"') :])
    row = world.parts.leases.load("main#job")
    assert row is not None
    assert row.cancel_requested_at is None
    fields = {
        each["name"]: each["value"]
        for each in Elements(asked).of("input")
        if each.get("type") == "hidden"
    }
    assert visitor.do("/do/cancel", **{name: value for name, value in fields.items() if name})


def test_cancelling_a_running_job_marks_it_and_shows_that_at_once(
    world: World, visitor: Visitor
) -> None:
    started(world, world.claim("job"))
    visitor.read("/job", stage="main", id="job")
    after = words(visitor.do("/do/cancel", stage="main", id="job"))
    assert "✓ job: running: it is being stopped" in after
    assert "⊘ cancelling" in after
    row = world.parts.leases.load("main#job")
    assert row is not None
    assert row.cancel_requested_at == world.clock.now()


def test_cancelling_a_job_between_attempts_ends_it_at_once(world: World, visitor: Visitor) -> None:
    world.end(world.claim("job"), OutcomeClass.FAILED)
    assert "and ends at once" in visitor.read("/ask/cancel", stage="main", id="job")
    assert "✓ job: cancelled" in words(visitor.do("/do/cancel", stage="main", id="job"))
    assert world.state("job") is State.CANCELLED


def test_a_job_that_has_ended_meanwhile_is_reported_and_left_alone(
    world: World, visitor: Visitor
) -> None:
    world.end(world.claim("job"), OutcomeClass.SUCCEEDED)
    asked = visitor.read("/ask/cancel", stage="main", id="job")
    assert "It has ended already." in asked
    assert "Cancel the job" not in asked
    assert "✗ job: has ended before: SUCCEEDED" in words(
        visitor.do("/do/cancel", stage="main", id="job")
    )


def test_a_dead_job_runs_again_with_the_button(world: World, visitor: Visitor) -> None:
    dead(world, "job", "why")
    assert "/ask/rerun?stage=main&amp;id=job" in visitor.read("/")
    after = words(visitor.do("/do/rerun", stage="main", id="job"))
    assert "✓ job runs again" in after
    (message,) = world.queued()
    assert json.loads(message["Body"]) == BODY
    assert message["MessageAttributes"]["job_id"]["StringValue"] == "job"


def test_a_success_runs_again_with_the_button(world: World, visitor: Visitor) -> None:
    world.end(world.claim("job"), OutcomeClass.SUCCEEDED)
    assert "/ask/rerun?stage=main&amp;id=job" in visitor.read("/job", stage="main", id="job")
    assert "and what it led to runs again" in visitor.read("/ask/rerun", stage="main", id="job")
    after = words(visitor.do("/do/rerun", stage="main", id="job"))
    assert "✓ job runs again" in after
    (message,) = world.queued()
    assert message["MessageAttributes"]["job_id"]["StringValue"] == "job"


@pytest.mark.parametrize("job_id", ["running", "nobody"])
def test_a_job_that_cannot_be_rerun_says_why(world: World, visitor: Visitor, job_id: str) -> None:
    world.claim("running")
    why = {"running": "it is running", "nobody": "Nothing is known of it"}[job_id]
    asked = visitor.read("/ask/rerun", stage="main", id=job_id)
    assert (why in asked, "Rerun the job" in asked) == (True, False)
    answer = visitor.post("/do/rerun", stage="main", id=job_id)
    assert "✗" in visitor.get(answer.headers["Location"]).text
    assert world.queued() == []


def test_chosen_letters_are_sent_back_and_the_others_stay(world: World, visitor: Visitor) -> None:
    ids = [world.bury(f"job-{n}") for n in range(3)]
    asked = visitor.read("/ask/redrive", stage="main", letter=ids[:2])
    assert "Rerun the jobs of 2 dead letters of main?" in words(asked)
    after = visitor.do("/do/redrive", stage="main", letter=ids[:2])
    assert "✓ 2 sent back to the jobs queue" in words(after)
    assert world.dead() == ids[2:]
    assert sorted(json.loads(each["Body"])["params"]["of"] for each in world.queued()) == [
        "job-0",
        "job-1",
    ]


def test_a_letter_that_is_gone_is_reported(world: World, visitor: Visitor) -> None:
    (gone,) = [world.bury("job")]
    visitor.do("/do/redrive", stage="main", letter=[gone])
    after = words(visitor.do("/do/redrive", stage="main", letter=[gone]))
    assert (
        "✗ 0 sent back to the jobs queue; 1 were no longer there, or another process holds them"
        in after
    )
    assert len(world.queued()) == 1


def test_a_redrive_without_a_choice_sends_nothing(world: World, visitor: Visitor) -> None:
    world.bury("job")
    assert "No letter is chosen" in visitor.read("/ask/redrive", stage="main")
    visitor.do("/do/redrive", stage="main")
    assert len(world.dead()) == 1
    assert world.queued() == []


def test_a_refusal_of_aws_is_reported_and_the_page_goes_on(world: World, visitor: Visitor) -> None:
    dead(world, "job", "why")
    around, world.aws.gate.around = world.aws.gate.around, away
    answer = visitor.post("/do/rerun", stage="main", id="job")
    assert visitor.get("/ask/cancel", stage="main", id="job").status_code == 502
    world.aws.gate.around = around
    assert "✗ no answer from" in words(visitor.read(answer.headers["Location"]))


@pytest.mark.parametrize("path", ["/do/cancel", "/do/rerun"])
@pytest.mark.parametrize(
    "form", [{}, {"stage": "main", "id": EVIL}, {"stage": "nowhere", "id": "x"}]
)
def test_an_action_without_a_valid_job_does_nothing(
    world: World, visitor: Visitor, path: str, form: dict[str, str]
) -> None:
    world.aws.gate.counts.clear()
    assert visitor.post(path, **form).status_code == 404
    assert not world.aws.gate.counts


def test_only_recent_results_are_kept(world: World, visitor: Visitor) -> None:
    world.claim("job")
    first = visitor.post("/do/cancel", stage="main", id="job").headers["Location"]
    assert "being stopped" in visitor.read(first)
    for _ in range(50):
        visitor.post("/do/cancel", stage="main", id="job")
    assert "being stopped" not in visitor.read(first)
