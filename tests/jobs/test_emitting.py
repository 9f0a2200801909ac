"""What a job may ask to be run next."""

from typing import Any

import pytest

from jobs.catalogue import months
from jobs.emitting import EmitError, Emitter
from longhaul.domain.lineage import MAX_GROUP
from tests.builders import BUCKET, settings, stage
from tests.jobs.conftest import MakeJob

STAGES = (
    stage(name="main", next=("clean", "other")),
    stage(name="clean", job="flights_clean", next=("delays",)),
    stage(name="delays", job="daily_delays", join=True),
    stage(name="other", job="sql"),
)
REQUEST = {"inputs": {"flights": f"s3://{BUCKET}/raw/01.csv"}}


def emitter(of: str = "main") -> Emitter:
    known = settings(stages=STAGES)
    return Emitter(known, known.stage(of))


def test_requests_are_kept_by_stage_in_the_order_in_which_they_came() -> None:
    made = emitter()
    made.emit([REQUEST], "clean")
    made.emit([{**REQUEST, "size": "large"}], "clean")
    made.emit([], "other")
    assert made.requests == {"clean": [REQUEST, {**REQUEST, "size": "large"}], "other": []}


@pytest.mark.parametrize(
    ("request_", "to", "problem"),
    [
        ({"inputs": {"a": "s3://nobody/x"}}, "clean", "request 0: inputs.a: bucket 'nobody' is not allowed"),
        ({"colour": "red"}, "clean", "request 0: colour: unknown field"),
        ({"job": "flights_cleam"}, "clean", "request 0: job: unknown job"),
        ({"job_id": "mine"}, "clean", "request 0: job_id is ours to give"),
        ({"params": {"x": object()}}, "clean", "request 0 is not JSON"),
        (REQUEST, "delays", "stage main leads to clean, other: name one with stage="),
        (REQUEST, None, "stage main leads to clean, other: name one with stage="),
    ],
)
def test_what_can_never_run_is_the_emitting_jobs_error(request_: Any, to: str | None, problem: str) -> None:
    made = emitter()
    with pytest.raises(EmitError, match=problem):
        made.emit([request_], to)
    assert made.requests is None


def test_nothing_is_emitted_into_a_join_nor_where_nothing_follows() -> None:
    with pytest.raises(EmitError, match="delays joins what comes through clean"):
        emitter("clean").emit([REQUEST], None)
    with pytest.raises(EmitError, match="stage other leads to no other"):
        emitter("other").emit([REQUEST], None)


def test_a_group_has_an_end() -> None:
    made = emitter()
    made.emit([REQUEST] * MAX_GROUP, "clean")
    with pytest.raises(EmitError, match="one job may emit 5,000 jobs into clean"):
        made.emit([REQUEST], "clean")


def test_months_emits_a_request_for_each_month(make_job: MakeJob) -> None:
    params = months.Params(year=2013, source=f"s3://{BUCKET}/raw/flights-{{year}}-{{month}}.csv")
    job = make_job({}, params, emitter("main"))
    job.emitter.stage = stage(name="main", next=("clean",))
    months.run(None, job)  # type: ignore[arg-type]  # no Spark is used
    assert job.emitter.requests
    found = [request["inputs"] for request in job.emitter.requests["clean"]]
    assert found[0] == {"flights": f"s3://{BUCKET}/raw/flights-2013-01.csv"}
    assert (len(found), found[-1]) == (12, {"flights": f"s3://{BUCKET}/raw/flights-2013-12.csv"})
