"""The page of a job."""

import re

import pytest

from longhaul.core.descent import Lineage
from longhaul.core.verdict import OutcomeClass
from longhaul.engines.fargate.ends import FARGATE
from longhaul.operations.runs import columns
from longhaul.pipelines.trees import TreeJob
from tests.builders import stage
from tests.cli.conftest import World
from tests.cli.page.conftest import ROOT, Elements, Visitor, words
from tests.cli.page.scenes import EVIL, backfill, member_id, started, succeeded, tree


def test_it_shows_request_attempts_errors_log_and_output(world: World, visitor: Visitor) -> None:
    first = started(world, world.claim("job"), 0.4)
    world.clock.advance(60)
    second = world.retry(world.end(first, OutcomeClass.OUT_OF_MEMORY, "Java heap space"))
    started(world, second)
    shown = words(visitor.read("/job", stage="main", id="job"))
    assert "▶ running 50 % running Cancel job" in shown
    assert "1 out_of_memory 2026-01-02 03:04:05Z" in shown
    assert "Java heap space log of attempt 1" in shown
    assert "Log of attempt 2 Lines with Search The last 200 lines at most" in shown
    assert "INFO reading rows=7 plain line of job" in shown
    assert "&#34;job&#34;: &#34;flights_clean&#34;" in shown
    earlier = words(visitor.read("/job", stage="main", id="job", attempt=1))
    assert "Log of attempt 1" in earlier


def test_an_output_is_shown_with_its_size(world: World, visitor: Visitor) -> None:
    succeeded(world, "job", 5)
    shown = words(visitor.read("/job", stage="main", id="job"))
    assert "output s3://longhaul-data/clean/2013-01/" in shown
    assert "files 12, 3.4 MB" in shown


def test_the_end_of_a_long_log_is_shown_and_all_of_it_is_searched(
    world: World, visitor: Visitor
) -> None:
    lease = started(world, world.claim("job"))
    stream = f"{FARGATE.log_prefix}task-job-1"
    lines = [f"line {n}, {'Odd' if n % 2 else 'even'}" for n in range(500)]
    world.aws.logs.write(world.settings.job_log_group, stream, *lines)
    end = visitor.read("/job", stage=lease.stage, id=lease.job_id)
    assert re.findall(r"<code>(line .*?)</code>", end)[::199] == ["line 300, even", "line 499, Odd"]
    page = visitor.read("/job", stage=lease.stage, id=lease.job_id, find="3, oDD")
    shown = re.findall(r"<code>(line .*?)</code>", page)
    assert (len(shown), shown[0], shown[-1]) == (50, "line 3, Odd", "line 493, Odd")
    assert "data-refresh" not in page
    assert "No line has that." in visitor.read("/job", stage="main", id="job", find=EVIL)


def test_a_job_that_ended_without_a_log_will_not_write_one(world: World, visitor: Visitor) -> None:
    world.retry(world.end(world.claim("job"), OutcomeClass.INTERRUPTED))
    shown = words(visitor.read("/job", stage="main", id="job"))
    assert "Log Nothing is written yet." in shown
    assert "Log No log of attempt 1: it had no task" in words(
        visitor.read("/job", stage="main", id="job", attempt=1)
    )
    world.end(world.claim("ended"))
    assert "Log No log: it had no task" in words(visitor.read("/job", stage="main", id="ended"))


def test_an_unknown_job_may_be_queued_and_can_be_cancelled(
    visitor: Visitor,
) -> None:
    answer = visitor.get("/job", stage="main", id="queued")
    assert answer.status_code == 404
    assert "it may still be queued" in words(answer.text)
    assert "not claimed yet: it ends when its message comes" in words(
        visitor.do("/do/cancel", key="main#queued")
    )
    page = visitor.read("/job", stage="main", id="queued")
    assert "cancelling" in page
    assert "attempt 0" not in page


@pytest.mark.parametrize(
    "query", [{"stage": "nowhere", "id": "x"}, {"stage": "main", "id": EVIL}, {"stage": "main"}]
)
def test_an_impossible_job_id_is_not_found(
    world: World, visitor: Visitor, query: dict[str, str]
) -> None:
    world.aws.gate.counts.clear()
    answer = visitor.get("/job", **query)
    assert answer.status_code == 404
    assert {"href": f"{ROOT}/"} in Elements(answer.text).of("a")  # the way back
    assert not world.aws.gate.counts


def test_a_look_reads_row_log_root_and_request(world: World, visitor: Visitor) -> None:
    started(world, world.claim("job", lineage=Lineage(root="main#year", parent="main#year")))
    world.claim("year")
    visitor.read("/job", stage="main", id="job")
    world.clock.advance(2)
    world.aws.gate.counts.clear()
    visitor.read("/job", stage="main", id="job")
    assert dict(world.aws.gate.counts) == {
        "dynamodb.BatchGetItem": 1,
        "dynamodb.GetItem": 1,  # the root
        "s3.GetObject": 1,
        "logs.GetLogEvents": 1,
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (" one ", "job?stage=clean&id=one"),
        ("october", "job?stage=clean&id=one"),  # a label
        ("alo", "job?stage=main&id=alone"),
        ("both", "?window=7d&text=both"),
        ("nobody", "?window=7d&text=nobody"),
    ],
)
def test_what_is_looked_for_is_a_page_or_a_filter_of_the_list(
    world: World, pipeline: Visitor, text: str, found: str
) -> None:
    clean = world.settings.stages[1]
    world.claim("one", of=clean, label="october")
    world.claim("alone")
    world.claim("both")
    world.claim("both", of=clean)
    assert pipeline.get("/find", id=text).headers["Location"] == f"{ROOT}/{found}"


# A tree as a graph, and what can be done with it.


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
