import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer.main

from longhaul.cli import extras
from longhaul.cli.cli import app
from longhaul.core.request import JobRequest
from longhaul.core.verdict import OutcomeClass
from simulation.aws.sqs.client import EntryFault
from tests.builders import QUEUE_URL, body
from tests.cli.conftest import PLACE, World
from tests.projects import make_project

FLAGS = (
    "--job",
    "sql",
    "--output",
    "s3://longhaul-data/out/",
    "--param",
    "query=SELECT 1",
    "--param",
    "n=7",
)

UNSENT = "unsent-20260102-030405.jsonl"
"""The clock stands still."""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def lines(n: int) -> str:
    return "".join(f"{body(job_id=f'job-{i}')}\n" for i in range(n))


def test_options_make_one_request(world: World) -> None:
    done = world.run(
        "submit",
        *FLAGS,
        *("--input", "a=s3://landing/a.csv", "--size", "large", "--afresh", "--job-id", "mine"),
        *("--label", "7 October", "--tag", "day=2026-10-07", "--tag", "by=ops"),
        *("--mode", "append", "--engine", "fargate", "--group", "tenant-7"),
        # One with a name is a further one.
        *("--output", "report=s3://longhaul-data/day=1/report/"),
    )
    assert (done.exit_code, done.stdout) == (0, "mine\n")
    (message,) = world.aws.sqs.queues[QUEUE_URL].messages.values()
    assert message.group_id == "tenant-7"
    assert json.loads(message.body) == {
        "job": "sql",
        "output": "s3://longhaul-data/out/",
        "size": "large",
        "afresh": True,
        "inputs": {"a": "s3://landing/a.csv"},
        "params": {"query": "SELECT 1", "n": 7},
        "label": "7 October",
        "tags": {"day": "2026-10-07", "by": "ops"},
        "mode": "append",
        "engine": "fargate",
        "outputs": {"report": "s3://longhaul-data/day=1/report/"},
        "job_id": "mine",
    }


@pytest.mark.usefixtures("no_project")
@pytest.mark.parametrize(
    ("endpoint", "way_out"),
    [
        (None, "`longhaul deploy` takes it there"),
        ("http://127.0.0.1:1", "the terminal of `longhaul up` says why"),
    ],
)
def test_job_of_the_project_that_the_stack_does_not_know_is_named_with_the_way_out(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    endpoint: str | None,
    way_out: str,
) -> None:
    here = replace(PLACE, endpoint=endpoint, embedded=endpoint is not None)
    monkeypatch.setattr("longhaul.cli.target.locate", lambda *_: here)
    settings = {"longhaul.toml": 'stack_name = "Longhaul"\n[[stages]]\nname = "main"\n'}
    project = make_project(tmp_path / "p", **settings).folder
    given = "".join(f"{body(job_id=job, job=job)}\n" for job in ("count_rows", "cuont_rows"))
    done = world.run(
        "--project", str(project), "submit", input=given, code=2, says="line 1: job: unknown job;"
    )
    assert done.stdout == ""
    assert f"jobs/count_rows.py is there, and the stack does not have it: {way_out}" in done.stderr
    assert "jobs/cuont_rows.py" not in done.stderr


def test_a_job_with_spark_is_not_sent_to_this_machine_without_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = replace(PLACE, endpoint="http://127.0.0.1:1", embedded=True)
    monkeypatch.setattr("longhaul.cli.target.locate", lambda *_: here)
    monkeypatch.setattr(extras, "find_spec", lambda name: name != "pyspark" or None)
    assert (
        world.run(
            "submit", *FLAGS, code=2, says="the job sql needs pyspark, which is not installed"
        ).stdout,
        world.queued(),
    ) == ("", [])


def test_every_field_of_a_request_has_an_option() -> None:
    """Except the schema's version and the fields that Longhaul writes itself."""
    submit = typer.main.get_command(app).commands["submit"]  # type: ignore[attr-defined]
    options = {option for parameter in submit.params for option in parameter.opts}
    singular = {"inputs": "input", "outputs": "output", "params": "param", "tags": "tag"}
    for field in JobRequest.model_fields.keys() - {"version", "lineage", "object"}:
        assert f"--{singular.get(field, field.replace('_', '-'))}" in options


def test_empty_list_of_requests_is_said_and_is_no_error(world: World) -> None:
    world.run("submit", input="[]", says="there is no request in it: nothing was sent", prints="")


def test_nothing_is_sent_when_one_line_is_wrong_and_each_error_names_its_line(world: World) -> None:
    done = world.run(
        "submit",
        input=f"{body()}\nnot json\n{body(job='sqll')}\n",
        code=2,
        says="line 2: is not valid JSON",
    )
    assert done.stdout == ""
    assert "line 3: job: unknown job; known: daily_delays, flights_clean, sql" in done.stderr
    assert "nothing was sent" in done.stderr
    assert world.queued() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("x.json", *FLAGS), "not both"),
        (("--job", "sql", "--param", "query"), "--param 'query': write NAME=VALUE"),
        (("--job", "sql", "--param", "a=1", "--param", "a=2"), "--param a: given twice"),
        ((*FLAGS, "--job-id", "\x1b[31m"), "'\\x1b[31m' is no job id"),
        ((*FLAGS, "--stage", "night"), "no stage 'night'; deployed: main"),
        (("--job", "sql"), "output: is missing"),
        ((*FLAGS, "--output", "s3://x/day=1/"), "a further output has a name: NAME=s3://x/day=1/"),
        ((*FLAGS, "--max-attempts", "0"), "max_attempts: "),
        ((*FLAGS, "--size", ""), "size: "),
        ((*FLAGS, "--group", ""), "up to 128 letters, digits and punctuation"),
        ((*FLAGS, "--group", "two words"), "up to 128 letters, digits and punctuation"),
        ((*FLAGS, "--group", "x" * 129), "up to 128 letters, digits and punctuation"),
    ],
)
def test_wrong_usage_is_explained(world: World, arguments: tuple[str, ...], said: str) -> None:
    assert "\x1b" not in world.run("submit", *arguments, code=2, says=said).output


def test_unsent_requests_are_written_to_a_file_that_can_be_submitted(world: World) -> None:
    world.aws.sqs.entry_fault = lambda _, entry: (
        EntryFault("AccessDenied", "not you", sender_fault=True)
        if "job-3" in entry["MessageBody"]
        else None
    )
    done = world.run("submit", input=lines(12), code=1, says="AccessDenied: not you")
    assert len(done.stdout.split()) == 11
    assert f"sent 11 of 12; the rest is in {UNSENT}" in done.stderr
    world.aws.sqs.entry_fault = lambda *_: None
    assert world.run("submit", UNSENT).stdout == "job-3\n"
    assert len(world.queued()) == 12


@pytest.mark.usefixtures("ctrl_c_twice")
def test_an_interrupt_in_the_middle_loses_nothing_and_exits_130(
    world: World, tmp_path: Path
) -> None:
    done = world.run("submit", input=lines(2_000), code=130)
    kept = (tmp_path / UNSENT).read_text().splitlines() if (tmp_path / UNSENT).exists() else []
    assert sorted([*done.stdout.split(), *(json.loads(line)["job_id"] for line in kept)]) == sorted(
        f"job-{i}" for i in range(2_000)
    )
    assert len(done.stdout.split()) == len(world.aws.sqs.queues[QUEUE_URL].messages)


def test_json_output_has_stage_and_message_id(world: World) -> None:
    done = world.run("submit", "--json", input=body(job_id="a"))
    assert json.loads(done.stdout) == {
        "job_id": "a",
        "stage": "main",
        "message_id": next(iter(world.aws.sqs.queues[QUEUE_URL].messages)),
    }


def test_wait_ends_with_the_outcome_of_every_job(world: World) -> None:
    started: dict[str, Any] = {}
    prints = {job: json.loads(body()) for job in ("good", "bad")}
    world.clock.meanwhile.extend(
        [
            lambda: started.update({job: world.claim(job) for job in prints}),
            lambda: world.end(started["good"], OutcomeClass.SUCCEEDED),
            lambda: world.end(started["bad"], OutcomeClass.PERMANENT, "no such column \x1b[2J"),
        ]
    )
    done = world.run(
        "submit",
        "--wait",
        input="".join(f"{body(job_id=job)}\n" for job in prints),
        code=1,
        says="good: SUCCEEDED, attempt 1",
    )
    assert "bad: DEAD: permanent: no such column \\x1b[2J" in done.stderr
    assert "1 of 2 succeeded" in done.stderr
    assert "\x1b" not in done.output


def test_wait_refuses_an_id_of_another_request_before_it_sends(world: World) -> None:
    world.claim("taken")
    world.run(
        "submit",
        "--wait",
        input=body(job_id="taken", size="large"),
        code=2,
        says="job_id 'taken' belongs to a different request that was sent before",
    )
    assert world.queued() == []
