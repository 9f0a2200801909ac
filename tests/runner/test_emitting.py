"""The jobs that a job may emit."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from longhaul.config.known import known
from longhaul.core.descent import MAX_GROUP, Group, Lineage
from longhaul.core.message import MAX_JOB_BYTES
from longhaul.core.settings import VARIABLE
from longhaul.core.verdict import OutcomeClass
from longhaul.pipelines.follow_ons import MAX_DEPTH, MAX_FAMILY
from longhaul.runner import failures
from longhaul.runner.emitting import MAX_EMITTED_BYTES, EmitError, Emitter
from longhaul.testing import MakeJob
from tests.builders import BUCKET, running, settings, stage
from tests.projects import make_project

STAGES = (
    stage(name="main", next=("clean", "other")),
    stage(name="clean", job="flights_clean", next=("delays",)),
    stage(name="delays", job="daily_delays", join=True),
    stage(name="other", job="sql"),
)
REQUEST: dict[str, JsonValue] = {"inputs": {"flights": f"s3://{BUCKET}/raw/01.csv"}}


def emitter(of: str = "main", groups: tuple[Group, ...] = ()) -> Emitter:
    known = settings(stages=STAGES)
    lineage = Lineage(root="main#2013", parent="main#2013", groups=groups) if groups else None
    return Emitter(known, known.stage(of), running(key=f"{of}#2013", lineage=lineage))


def fan_out(*sizes: int) -> tuple[Group, ...]:
    return tuple(Group(of="main#2013", run=1, n=0, size=size) for size in sizes)


def test_requests_are_kept_by_stage_in_the_order_in_which_they_came() -> None:
    made = emitter()
    made.emit([REQUEST], "clean")
    made.emit([{**REQUEST, "output": "data:large/"}], "clean")
    made.emit([], "other")
    assert made.requests == {"clean": [REQUEST, {**REQUEST, "output": "data:large/"}], "other": []}


@pytest.mark.parametrize(
    ("request_", "to", "problem"),
    [
        (
            {"inputs": {"a": "s3://nobody/x"}},
            "clean",
            "request 0: inputs.a: this bucket is not allowed",
        ),
        ({"colour": "red"}, "clean", "request 0: colour: unknown field"),
        ({"job": "flights_cleam"}, "clean", "request 0: job: unknown job"),
        ({"job_id": "mine"}, "clean", "request 0: job_id is ours to give"),
        ({"params": {"x": object()}}, "clean", "request 0 is not JSON"),
        (REQUEST, "delays", "stage main leads to clean, other: name one with stage="),
        (REQUEST, None, "stage main leads to clean, other: name one with stage="),
    ],
)
def test_a_request_that_can_never_run_is_an_error_of_the_emitting_job(
    request_: Any, to: str | None, problem: str
) -> None:
    made = emitter()
    with pytest.raises(EmitError, match=problem):
        made.emit([request_], to)
    assert made.requests is None


def test_nothing_is_emitted_into_a_join_nor_where_nothing_follows() -> None:
    with pytest.raises(EmitError, match="delays joins what comes through clean"):
        emitter("clean").emit([REQUEST], None)
    with pytest.raises(EmitError, match="stage other leads to no other"):
        emitter("other").emit([REQUEST], None)


def test_job_whose_stage_was_taken_out_emits_for_the_stages_that_it_led_to() -> None:
    known = settings(stages=STAGES[1:])
    lease = running(leads_to=("clean",))

    made = Emitter(known, known.stage_or_removed("main"), lease)
    made.emit([REQUEST], None)

    assert made.requests == {"clean": [REQUEST]}


def large(bytes_: int) -> dict[str, JsonValue]:
    return {**REQUEST, "params": {"x": "y" * bytes_}}


HALF = MAX_JOB_BYTES // 2
MANY: dict[str, JsonValue] = {**REQUEST, "params": {"x": [{}] * 90_000}}


@pytest.mark.parametrize(
    ("groups", "kept", "refused", "to", "problem"),
    [
        ((), [REQUEST] * MAX_GROUP, [REQUEST], "clean", "one job may emit 5,000 jobs into clean"),
        (
            (),
            [REQUEST],
            [REQUEST, large(MAX_JOB_BYTES)],
            "clean",
            r"request 1: the message is [\d,]+ bytes too long",
        ),
        (
            (),
            [large(HALF)] * (MAX_EMITTED_BYTES // HALF - 1),
            [large(HALF)] * 2,
            "other",
            "one job may emit 67,108,864 bytes",
        ),
        # No more than a function can read.
        ((), [MANY] * 7, [MANY], "other", "and fewer of many short values"),
        (
            fan_out(100, 50),
            [REQUEST] * (MAX_FAMILY // 5_000),
            [REQUEST],
            "clean",
            "fan-outs of 100 by 50 by 21 may lead to 105,000 jobs",
        ),
    ],
    ids=["a group", "a message", "all messages", "many short values", "fan-outs within fan-outs"],
)
def test_what_is_too_much_is_refused_and_what_came_before_is_kept(
    groups: tuple[Group, ...], kept: list[Any], refused: list[Any], to: str, problem: str
) -> None:
    made = emitter(groups=groups)
    made.emit(kept, "clean")
    with pytest.raises(EmitError, match=problem) as raised:
        made.emit(refused, to)
    assert made.requests == {"clean": kept}
    assert failures.of_error(raised.value).kind is OutcomeClass.PERMANENT


def test_fan_outs_are_only_so_deep() -> None:
    emitter(groups=fan_out(*[2] * (MAX_DEPTH - 1))).emit([REQUEST] * 2, "clean")
    with pytest.raises(EmitError, match="9 fan-outs within each other; at most 8"):
        emitter(groups=fan_out(*[2] * MAX_DEPTH)).emit([REQUEST] * 2, "clean")


STAGES_OF_A_PROJECT = """
emr_serverless = {}

[sizes.tiny]

[[stages]]
name = "main"
next = ["clean"]

[[stages]]
name = "clean"
job = "count_rows"
advanced.limits = { input_prefixes = ["raw/"] }
next = ["other"]

[[stages]]
name = "other"
job = "sql"
"""


def test_in_a_project_a_job_emits_into_the_projects_own_stages(
    make_job: MakeJob, emitted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "p", **{"longhaul.toml": STAGES_OF_A_PROJECT})
    monkeypatch.setenv(VARIABLE, known(project.checked(), project.job_names).model_dump_json())
    request: dict[str, JsonValue] = {"inputs": {"rows": "s3://data/raw/1.csv"}}
    first, second = make_job({}), make_job({}, stage="clean")
    assert emitted(first) == {}

    first.emit(request)
    assert emitted(first) == {"clean": [request]}
    second.emit({"output": "s3://data/x/"}, stage="other")

    first.emit({**request, "size": "tiny"}, {**request, "engine": "emr-serverless"})

    assert len(emitted(first)["clean"]) == 3
    assert emitted(second) == {"other": [{"output": "s3://data/x/"}]}
    with pytest.raises(EmitError, match="clean reads only below s3://data/raw/"):
        first.emit({"inputs": {"rows": "s3://data/other/1.csv"}})
