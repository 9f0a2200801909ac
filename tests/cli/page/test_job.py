"""The page of a job."""

import re

import pytest

from longhaul.core.descent import Lineage
from longhaul.core.message import Message
from longhaul.core.verdict import OutcomeClass
from longhaul.engines.fargate.ends import FARGATE
from tests.cli.conftest import World
from tests.cli.page.conftest import ROOT, Elements, Visitor, words
from tests.cli.page.scenes import EVIL, started, succeeded


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


def test_a_request_that_is_no_json_or_is_gone_causes_no_error(
    world: World, visitor: Visitor
) -> None:
    lease = world.claim("odd")
    world.parts.requests.put(lease.request_ref, Message("no JSON", {}))
    assert "None is stored." in visitor.read("/job", stage="main", id="odd")
    gone = world.claim("gone")
    world.aws.s3.delete_object(Bucket="longhaul-data", Key=gone.request_ref)
    assert "None is stored." in visitor.read("/job", stage="main", id="gone")


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
