"""The first page: its content, and the calls that it makes."""

import re

import pytest
from botocore.exceptions import EndpointConnectionError

from longhaul.cli.page import app
from longhaul.core import transitions
from longhaul.core.lease import State
from longhaul.core.verdict import OutcomeClass
from simulation.aws.service import Answer, Call, Proceed
from tests.cli.conftest import World
from tests.cli.page.conftest import ROOT, Elements, Visitor, offered, words
from tests.cli.page.scenes import EVIL, busy, dead, multitude, started, succeeded


def section(html: str, name: str) -> str:
    found = re.search(rf'<section id="{name}".*?</section>', html, re.DOTALL)
    assert found is not None
    return found[0]


def calls(world: World) -> dict[str, int]:
    """The calls to AWS since the last time."""
    found = dict(world.aws.gate.counts)
    world.aws.gate.counts.clear()
    return found


def test_the_first_page_works_without_scripts(world: World, visitor: Visitor) -> None:
    busy(world)
    page = visitor.read("/")
    assert words(section(page, "stages")).endswith("main Pause main about 37 5 of 1000 ✗ 1 in main")
    runs = words(section(page, "runs"))
    assert runs.startswith("Runs 11")
    # The one job of its run that stops, and that which runs.
    assert "year ⊘ cancelling main 0 of 3" in runs
    assert "flights-2012-13 ✗ dead main 0 of 1" in runs
    jobs = words(section(page, "jobs"))
    assert jobs.startswith("Jobs 13")
    assert "main delays-hourly ▶ running 70 % running 2" in jobs
    assert "main year/main/02 ⊘ cancelling staging" in jobs
    assert "main weather-joined ↻ released waits for its message; were it lost, a copy" in jobs
    assert jobs.index("flights-2012-13 ✗ dead") < jobs.index("flights-2013-06 ✓ succeeded")
    assert "permanent: missing input: s3://longhaul-data/raw/2012-13.csv" in jobs
    assert page.count("<li title=") == 11


def test_progress_has_a_name_and_a_value(world: World, visitor: Visitor) -> None:
    started(world, world.claim("known"), 0.42)
    started(world, world.claim("unknown"), None)
    bars = Elements(visitor.read("/")).of("progress")
    assert {"max": "100", "value": "42.0", "aria-label": "Progress of known"} in bars
    assert {"aria-label": "Progress of unknown: not known"} in bars


def test_only_possible_actions_are_offered(world: World, visitor: Visitor) -> None:
    busy(world)
    links = {each["href"] for each in Elements(visitor.read("/")).of("a") if "data-ask" in each}
    assert f"{ROOT}/ask/cancel?key=main%23delays-hourly" in links
    assert f"{ROOT}/ask/cancel?key=main%23weather-joined" in links
    assert f"{ROOT}/ask/rerun?key=main%23flights-2012-13" in links
    assert not [each for each in links if "flights-2013-01" in str(each) or "b2" in str(each)]


def test_a_refresh_reads_only_the_index_and_the_changed_rows(
    world: World, visitor: Visitor
) -> None:
    for n in range(120):
        world.end(world.claim(f"ended-{n}"), OutcomeClass.SUCCEEDED)
    lease = started(world, world.claim("running"))
    world.retry(world.end(world.claim("retried"), OutcomeClass.FAILED))
    calls(world)
    visitor.read("/")
    first = calls(world)
    # Three kinds of open rows, three states of ended ones.
    assert first["dynamodb.Query"] == 6
    # The open rows, 120 others, and the attempts of the job that was tried twice.
    assert first["dynamodb.BatchGetItem"] == 4
    world.clock.advance(2)
    world.parts.leases.report(
        transitions.report_progress(lease.id, {"fraction": 0.9}, world.clock.now())
    )
    calls(world)
    assert "90 %" in visitor.read("/")
    assert calls(world) == {
        "dynamodb.Query": 6,
        # Running jobs, and the attempts of that which was tried twice.
        "dynamodb.BatchGetItem": 2,
        "dynamodb.GetItem": 1,  # the slots
        "sqs.GetQueueAttributes": 2,
    }


def test_when_aws_fails_the_page_says_so_and_keeps_its_last_state(
    world: World, visitor: Visitor
) -> None:
    succeeded(world, "known", 5)
    visitor.read("/")
    at = world.clock.now()

    around, world.aws.gate.around = world.aws.gate.around, away
    world.clock.advance(2)
    page = visitor.read("/")
    assert "Could not connect to the endpoint URL" in page
    assert f"This is the state at {at:%H:%M:%S} UTC;" in page
    assert "known" in section(page, "jobs")

    world.aws.gate.around = around
    world.clock.advance(2)
    assert "Could not connect" not in visitor.read("/")


def test_pages_hold_a_hundred_runs_and_jobs_each_and_together_all(
    world: World, visitor: Visitor
) -> None:
    multitude(world, 410)
    pages = [visitor.read("/", window="7d", page=n) for n in range(1, 6)]
    for name in ("jobs", "runs"):
        rows = [re.findall(r'<tr data-key="main#([^"]+)"', section(page, name)) for page in pages]
        assert [*map(len, rows)] == [100, 100, 100, 100, 10]
        assert len({each for page in rows for each in page}) == 410
        assert all(f"{name.capitalize()} 410" in words(section(page, name)) for page in pages)
    assert max(map(len, pages)) < 400_000
    for page, shown in (("99", 5), ("0", 1), ("-1", 1), ("x", 1), ("9" * 5000, 1)):
        assert f"Page {shown} of 5: jobs " in words(visitor.read("/", window="7d", page=page))


def test_a_filter_and_its_acts_concern_all_jobs_and_not_the_page(
    world: World, visitor: Visitor
) -> None:
    multitude(world, 700, State.DEAD)
    page = visitor.read("/", window="7d", text="tenth")
    assert "70 jobs match. Rerun 70 of them" in words(page)
    assert page.count("<li title=") == 70
    assert "100 jobs match." in words(visitor.read("/", window="7d", text="team=web"))
    assert "1 job matches." in words(visitor.read("/", window="7d", text="job-00003"))


def test_more_jobs_than_one_answer_concerns_run_again_by_several(
    world: World, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "MAX_ACTS", 50)
    multitude(world, 110, State.DEAD)
    given = {"window": "7d", "state": "DEAD"}
    assert "Rerun the first 50 of them" in words(visitor.read("/", **given))
    sent = set()
    for expected in (50, 50, 10):
        asked = visitor.read(offered(visitor.read("/", **given), "rerun"))
        keys = [each["value"] for each in Elements(asked).of("input") if each["name"] == "key"]
        assert len(keys) == expected
        done = visitor.do("/do/rerun", key=keys, **given)
        assert f"and {expected - 5} more: runs again" in done
        assert "110 jobs match" in words(done)  # with its filter
        sent |= set(keys)
    assert len(sent) == 110
    assert "of them" not in visitor.read("/", **given)


@pytest.mark.parametrize(
    "query",
    [
        {"window": "1y"},
        {"window": EVIL},
        {"state": "NONE"},
        {"text": "x" * 300},
    ],
)
def test_an_unknown_window_or_filter_is_refused(visitor: Visitor, query: dict[str, str]) -> None:
    answer = visitor.get("/", **query)
    assert (answer.status_code, answer.mimetype) == (400, "text/html")
    assert {"href": f"{ROOT}/"} in Elements(answer.text).of("a")  # the way back
    assert len(Elements(answer.text).of("script")) == 1


def test_the_page_has_landmarks_headings_and_table_headers(world: World, visitor: Visitor) -> None:
    busy(world)
    page = visitor.read("/")
    elements = Elements(page)
    assert [len(elements.of(tag)) for tag in ("header", "main", "h1")] == [1, 1, 1]
    ids = [str(attributes["id"]) for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {each["aria-labelledby"] for each in elements.of("section")} <= set(ids)
    assert all(each.get("aria-label") for each in elements.of("nav"))
    assert all(each.get("scope") for each in elements.of("th"))
    assert all(each.get("aria-label") for each in elements.of("div") if "tabindex" in each)
    assert {each["for"] for each in elements.of("label")} <= set(ids)


def away(call: Call, proceed: Proceed) -> Answer:
    del proceed
    raise EndpointConnectionError(endpoint_url=f"https://{call.service}.us-east-1.amazonaws.com")


def test_a_paused_stage_and_slots_that_were_set_by_hand_are_named(
    world: World, visitor: Visitor
) -> None:
    world.run("stage", "slots", "main", "3")
    world.run("stage", "pause", "main")
    said = words(section(visitor.read("/"), "stages"))
    assert re.search(r"0 of 3 \(set by hand; deployed: 1000\), paused since [-0-9]+", said)


def test_a_letter_whose_job_is_dead_no_more_is_no_red_light(world: World, visitor: Visitor) -> None:
    row = dead(world, "again", "why")
    assert "✗ 1 in main" in words(section(visitor.read("/"), "stages"))
    world.end(world.again(row), OutcomeClass.SUCCEEDED)
    world.clock.advance(2)
    stages = section(visitor.read("/"), "stages")
    assert "0 of 1 in main" in words(stages)
    assert 'class="bad"' not in stages
    said = "dead letters: 0, and 1 other of jobs that are not dead (`longhaul dlq list`)"
    world.run("status", says=said)
