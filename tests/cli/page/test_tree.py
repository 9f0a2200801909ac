"""A tree as a graph, and what can be done with it."""

import re

import pytest

from longhaul.operations.runs import columns
from longhaul.pipelines.trees import TreeJob
from tests.builders import stage
from tests.cli.conftest import World
from tests.cli.page.conftest import Elements, Visitor, words
from tests.cli.page.scenes import backfill, member_id, tree


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
    # The open ones, joins, and the attempts of the root.
    assert world.aws.gate.counts["dynamodb.BatchGetItem"] == 3


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


# A backfill as a whole: its name opens its graph, and what can be done with all of it.


NAME = {"stage": "main", "id": "oct"}


def test_its_name_opens_its_graph_in_the_place_of_a_job(world: World, visitor: Visitor) -> None:
    backfill(world, 12, 9, left=5)
    said = words(visitor.read("/job", **NAME))
    assert "main 6 of 12 (2 DEAD)" in said
    assert "✗ dead 2 ▶ running 1 … queued 3 ✓ succeeded 6" in said
    assert "5 more were still to be sent" in said
    assert "Cancel the run" in said
    assert "Rerun what died" in said
    found = visitor.get("/find", id="oct")
    assert (found.status_code, found.headers["Location"]) == (
        303,
        "/the-secret/job?stage=main&id=oct",
    )


def test_its_page_is_a_grid_of_its_values(world: World, visitor: Visitor) -> None:
    backfill(world, 6, 5)
    page = visitor.read("/job", **NAME)
    grid = page[page.index('<ol class="grid"') : page.index("</ol>")]
    assert words(grid).startswith(
        "✓ 2026-10-01 succeeded ✓ 2026-10-02 succeeded ✓ 2026-10-03 succeeded ✗ 2026-10-04 dead "
        "▶ 2026-10-05 running … 2026-10-06 queued"
    )
    assert grid.count("/the-secret/job?stage=main&amp;id=oct%2F2026-10-") == 6


def test_its_jobs_are_one_run_of_the_list_and_lead_to_it(world: World, visitor: Visitor) -> None:
    backfill(world, 3, 3)
    world.claim("nov/2026-11-01", tags={"backfill": "other"})
    link = '<a href="/the-secret/job?stage=main&amp;id=oct">oct</a>'
    assert link in visitor.read("/job", stage="main", id="oct/2026-10-01")
    assert "<dt>backfill</dt>" not in visitor.read("/job", stage="main", id="nov/2026-11-01")
    listed = '<tr data-key="main#oct"><th'
    assert visitor.read("/").count(listed) == 1
    assert listed in visitor.read("/", text="oct")
    assert listed not in visitor.read("/", text="nov")


def test_it_is_cancelled_after_a_question_and_its_command_sends_no_more(
    world: World, visitor: Visitor
) -> None:
    backfill(world, 4, 2, left=7)
    asked = words(visitor.read("/ask/cancel-run", key="main#oct"))
    assert "Cancel the run of oct?" in asked
    assert "The command of a backfill sends no more." in asked
    did = words(visitor.do("/do/cancel-run", key="main#oct"))
    assert "✓ 3 jobs cancelled" in did
    assert "7 more were not sent: it was cancelled" in did
    now = world.clock.now()
    assert not world.parts.backfills.note_begun("main#oct", ["2026-10-09"], now, now)


def test_what_died_of_it_runs_again_after_a_question(world: World, visitor: Visitor) -> None:
    backfill(world, 9, 9)
    assert "Rerun what died in the run of oct?" in words(
        visitor.read("/ask/rerun-dead", key="main#oct")
    )
    assert "✓ 2026-10-04, 2026-10-08: runs again" in words(
        visitor.do("/do/rerun-dead", key="main#oct")
    )
    ids = [each["MessageAttributes"]["job_id"]["StringValue"] for each in world.queued()]
    assert sorted(ids) == ["oct/2026-10-04", "oct/2026-10-08"]
