"""A tree as a graph, and what can be done with it."""

import json
import re
from dataclasses import replace

import pytest

from longhaul.cli.insight.tree_graph import columns
from longhaul.cli.target import Target
from longhaul.domain.lease import Lease
from longhaul.domain.verdict import OutcomeClass
from longhaul.trees import TreeJob
from tests.builders import BUCKET, stage
from tests.cli.conftest import PLACE, World
from tests.cli.page.conftest import Elements, Visitor, visitor_of, words
from tests.cli.page.scenes import EVIL, member_id, three_stages, tree


@pytest.fixture
def pipeline(world: World) -> Visitor:
    three_stages(world)
    return visitor_of(Target(PLACE, None), world)


def graph(html: str) -> str:
    return html[html.index('<section id="tree"') : html.index('<section id="job"')]


def test_stages_are_columns_with_the_number_of_jobs_in_each_state(
    world: World, pipeline: Visitor
) -> None:
    root = tree(world, 20, 10)
    page = pipeline.read("/job", stage="main", id="year")
    said = words(graph(page))
    assert "main 1 of 1, clean 7 of 20 (1 DEAD), total waits for 13" in said
    assert "clean 20 ✗ dead 1 ▶ running 2 … queued 10 ✓ succeeded 7" in said
    assert said.index("main 1 ✓ succeeded 1") < said.index("clean 20") < said.index("total 0")
    assert "waits for 13 of 20" in said
    widths = [float(str(each["width"]).rstrip("%")) for each in Elements(graph(page)).of("rect")]
    assert sum(widths) == pytest.approx(200, abs=0.1)  # a bar of each stage with jobs
    # A member shows the same, and is marked in it.
    shown = pipeline.read("/job", stage="clean", id=member_id(root, 0))
    assert "Began with year" in words(graph(shown))
    assert graph(shown).count('aria-current="true"') == 1


def test_the_root_of_a_tree_in_which_a_job_died_is_red_in_the_list(
    world: World, pipeline: Visitor
) -> None:
    tree(world, 6, 3, name="well")
    tree(world, 6, 6, name="broken")
    row = re.compile(r'<tr data-key="main#(\w+)">.*?<span class="state (\w+)">', re.DOTALL)
    assert dict(row.findall(pipeline.read("/"))) == {"well": "succeeded", "broken": "dead"}


def test_hostile_text_in_a_tree_stays_text(world: World, pipeline: Visitor) -> None:
    root = tree(world, 5, 4, label=EVIL)
    refused = f"clean#{member_id(root, 4)}"
    world.refuse(refused, EVIL)
    page = pipeline.read("/job", stage="main", id="year")
    assert len(Elements(page).of("script")) == 1
    assert not set("\u202e\x1b\x07") & set(page)
    assert graph(page).count("&lt;script&gt;") >= 3


def test_of_many_jobs_those_that_need_attention_are_listed(world: World, pipeline: Visitor) -> None:
    tree(world, 150, 120)
    page = graph(pipeline.read("/job", stage="main", id="year"))
    assert page.count('<li data-key="clean#') == 100
    assert "and 50 more" in words(page)
    assert page.index("✗</span> dead") < page.index("▶</span> running")


def test_successes_are_read_once(world: World, pipeline: Visitor) -> None:
    tree(world, 150, 140)
    pipeline.read("/job", stage="main", id="year")
    world.clock.advance(2)
    world.aws.gate.counts.clear()
    pipeline.read("/job", stage="main", id="year")
    assert world.aws.gate.counts["dynamodb.BatchGetItem"] == 2  # the open ones, and joins


def test_a_run_is_cancelled_and_what_died_runs_again(world: World, pipeline: Visitor) -> None:
    root = tree(world, 6, 6)
    died = member_id(root, 3)
    asked = pipeline.read("/ask/rerun-tree", stage="main", id="year")
    assert "Rerun what died in the run of year?" in words(asked)
    assert "✓ 1 job sent again" in words(pipeline.do("/do/rerun-tree", stage="main", id="year"))
    assert [each["MessageAttributes"]["job_id"]["StringValue"] for each in world.queued()] == [died]
    assert "Cancel the run of year?" in words(
        pipeline.read("/ask/cancel-tree", stage="main", id="year")
    )
    after = words(pipeline.do("/do/cancel-tree", stage="main", id="year"))
    assert "1 job of year cancelled" in after
    row = world.parts.leases.load(f"clean#{member_id(root, 4)}")
    assert row is not None
    assert row.cancel_requested_at is not None


@pytest.mark.parametrize("what", ["cancel-tree", "rerun-tree"])
def test_an_act_on_an_unknown_tree_does_nothing(pipeline: Visitor, what: str) -> None:
    assert "Nothing is known of it." in pipeline.read(f"/ask/{what}", stage="main", id="x")
    assert "✗ nothing is known of x" in words(
        pipeline.get(pipeline.post(f"/do/{what}", stage="main", id="x").headers["Location"]).text
    )


def test_a_filter_shows_what_matches_and_acts_on_exactly_that(
    world: World, pipeline: Visitor
) -> None:
    root = tree(world, 10, 10, label="2026-10-07")
    world.end(world.claim("other", label="2026-10-08"))
    page = pipeline.read("/", text="2026-10-07", state="DEAD")
    assert "1 job matches." in words(page)
    assert "other" not in page
    asked = pipeline.read("/ask/rerun-all", text="2026-10-07", state="DEAD")
    assert "Rerun 1 job?" in words(asked)
    keys = [each["value"] for each in Elements(asked).of("input") if each.get("name") == "key"]
    assert keys == [f"clean#{member_id(root, 3)}"]
    assert "✓ 1 job sent again" in words(pipeline.do("/do/rerun-all", key=keys))
    assert len(world.queued()) == 1
    asked = pipeline.read("/ask/cancel-all", stage="clean", text="YEAR")
    keys = [each["value"] for each in Elements(asked).of("input") if each.get("name") == "key"]
    assert "✓ 2 jobs cancelled" in words(pipeline.do("/do/cancel-all", key=keys))
    assert "0 jobs match." in words(pipeline.read("/", text="team=web"))


def _dead(world: World, *names: str) -> list[Lease]:
    """Jobs that have died, each with a request of its own."""
    refs = {name: f"longhaul/requests/{name}" for name in names}
    return [
        world.end(world.claim(name, request_ref=ref), OutcomeClass.PERMANENT)
        for name, ref in refs.items()
    ]


def test_a_job_whose_request_is_gone_keeps_no_other_from_running_again(
    world: World, visitor: Visitor
) -> None:
    rows = _dead(world, "a", "b", "c")
    for row in rows[:2]:
        world.aws.s3.delete_object(Bucket=BUCKET, Key=row.request_ref)
    said = words(visitor.do("/do/rerun-all", key=[row.key for row in rows]))
    assert re.search("1 job sent again; (a, b|b, a) cannot run again now", said)
    (queued,) = world.queued()
    assert queued["MessageAttributes"]["job_id"]["StringValue"] == "c"


@pytest.mark.parametrize("query", [{"state": "NONE"}, {"text": "x" * 300}])
def test_a_filter_that_is_none_is_refused(visitor: Visitor, query: dict[str, str]) -> None:
    assert visitor.get("/", **query).status_code == 400


@pytest.mark.parametrize("key", [EVIL, "nowhere#x", "main#"])
def test_an_act_on_what_is_no_job_does_nothing(world: World, visitor: Visitor, key: str) -> None:
    world.aws.gate.counts.clear()
    assert visitor.post("/do/cancel-all", key=[key]).status_code == 404
    assert not world.aws.gate.counts


def test_a_stage_is_paused_and_resumed(world: World, visitor: Visitor) -> None:
    assert "Pause main?" in words(visitor.read("/ask/pause", stage="main"))
    after = words(visitor.do("/do/pause", stage="main"))
    assert "✓ main is paused" in after
    assert "Resume main" in after
    assert world.parts.slots.use(world.settings.stages[0]).paused_at is not None
    visitor.do("/do/resume", stage="main")
    assert world.parts.slots.use(world.settings.stages[0]).paused_at is None


def test_letters_are_grouped_by_what_they_died_of(world: World, visitor: Visitor) -> None:
    ids = [world.bury(f"day-{n}", "permanent", f"missing input: s3://b/{n}.csv") for n in range(3)]
    world.bury("other", "failed", EVIL)
    page = visitor.read("/dead-letters", stage="main")
    assert "3 permanent missing input: … Rerun 3" in words(page)
    links = [str(each["href"]) for each in Elements(page).of("a") if "data-ask" in each]
    asked = visitor.read(links[0])
    assert "Rerun the jobs of 3 dead letters of main?" in words(asked)
    assert all(each in asked for each in ids)
    assert len(Elements(page).of("script")) == 1


def test_a_stage_stands_to_the_right_of_all_that_lead_to_it() -> None:
    stages = (
        stage(next=("a", "b")),
        stage(name="a", next=("b",)),
        stage(name="b"),
        stage(name="c"),
    )
    top = TreeJob("main#x", None)
    top.children = [TreeJob(f"{name}#x", None) for name in ("b", "a")]
    shown = [[box.name for box in column] for column in columns(top, stages)]
    assert shown == [["main"], ["a"], ["b"]]


def test_a_job_that_is_not_allowed_any_more_keeps_no_other_from_running_again(
    world: World, visitor: Visitor
) -> None:
    rows = _dead(world, "a", "b")
    kept = world.parts.requests.get(rows[0].request_ref)
    changed = json.dumps({**json.loads(kept.body), "job": "taken_out"})
    world.parts.requests.put(rows[0].request_ref, replace(kept, body=changed))
    said = words(visitor.do("/do/rerun-all", key=[row.key for row in rows]))
    assert "1 job sent again; a cannot run again now" in said
