"""A tree as a graph, and what can be done with it."""

import re

import pytest

from longhaul.operations.runs import columns
from longhaul.pipelines.trees import TreeJob
from tests.builders import stage
from tests.cli.conftest import World
from tests.cli.page.conftest import Elements, Visitor, words
from tests.cli.page.scenes import member_id, tree


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
