import json
from itertools import count
from typing import Any

import pytest

from longhaul.operations.submit import Submission, documents, submissions
from tests.builders import BODY, body, settings, stage

JOB_FIELD = '"job": "flights_clean", '


def read(text: str) -> tuple[list[Submission], list[str]]:
    found, problems = documents(text)
    numbers = count(1)
    good, more = submissions(found, settings(), stage(), lambda job: f"{job}-{next(numbers)}")
    return good, [str(problem) for problem in [*problems, *more]]


@pytest.mark.parametrize(
    ("job", "first", "refused"),
    [
        ("sql", {}, 0),
        ("sql", {"next": ("clean",)}, 0),
        ("sql", {"job": "sql"}, 0),
        ("sql", {"job": "daily_delays"}, 1),
        ("flights_clean", {}, 0),
        ("flights_clean", {"next": ("clean",)}, 1),
        (None, {"job": "daily_delays"}, 0),
    ],
)
def test_a_stage_that_nobody_named_gets_only_the_jobs_that_it_expects(
    job: str | None, first: dict[str, Any], refused: int
) -> None:
    known = settings(stages=(stage(**first), stage(name="clean", job="flights_clean")))
    request = body(job=job, job_id="j") if job else body(job_id="j").replace(JOB_FIELD, "")
    found, _ = documents(request)

    def ask(*, is_named: bool) -> list[str]:
        _, problems = submissions(found, known, known.stages[0], lambda job: job, is_named=is_named)
        return [each.text for each in problems]

    assert ask(is_named=True) == []
    assert [f"expect the job {job!r}" in text for text in ask(is_named=False)] == [True] * refused


@pytest.mark.parametrize(
    ("text", "places"),
    [
        pytest.param(body(), [""], id="one line"),
        pytest.param(
            f"\n{body()}\n\n{body()}\n", ["line 2", "line 4"], id="one a line, with empty ones"
        ),
        pytest.param(
            body(params={"q": "x"}).replace('"x"', '"a\u2028b\x85c"') + "\r\n" + body(),
            ["line 1", "line 2"],
            id="with separators of lines in a text",
        ),
        pytest.param(json.dumps(BODY, indent=2), [""], id="one over several lines"),
        pytest.param(
            json.dumps([BODY, BODY], indent=2),
            ["entry 1", "entry 2"],
            id="an array over several lines",
        ),
        pytest.param(json.dumps([BODY, BODY]), ["entry 1", "entry 2"], id="an array on one line"),
    ],
)
def test_requests_are_found_in_every_layout(text: str, places: list[str]) -> None:
    good, problems = read(text)
    assert [str(each.position) for each in good] == places
    assert problems == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the input is empty: one JSON object, an array of them, or one a line"),
        (
            f"{body()}\n{{",
            (
                "line 2: is not valid JSON at column 2: "
                "Expecting property name enclosed in double quotes"
            ),
        ),
        (
            '{"job": "sql",\n  "output": s3}',
            "line 2: is not valid JSON at column 13: Expecting value",
        ),
        (f"{body()}\n7", 'line 2: is no JSON object: a request looks like {"job": …, "output": …}'),
        ("[7]", 'entry 1: is no JSON object: a request looks like {"job": …, "output": …}'),
        ("[" * 100_000, "cannot be read: maximum recursion depth"),
        (
            f'{body()}\n{{"n": {"9" * 5_000}}}',
            "line 2: cannot be read: Exceeds the limit",
        ),
        (f"{body()}\n{body(colour='red')}", "line 2: colour: unknown field"),
        (body(params={"x": float("nan")}), "the body is not valid JSON"),
        (
            body(
                inputs={"flights": "s3://longhaul-data/raw/"},
                output="s3://longhaul-data/raw/clean/",
            ),
            "output: is inside the input flights, so the next run would read it",
        ),
        (body(timeout="2d"), "timeout: 2d is above the ceiling of stage main, 1d"),
        (body(job_id="../etc"), "job_id: a job_id has 1 to 128"),
        (
            f"{body(job_id='a')}\n{body(job_id='a', size='large')}",
            "line 2: job_id 'a' belongs to a different request at line 1",
        ),
    ],
)
def test_each_problem_names_its_line(text: str, problem: str) -> None:
    _, problems = read(text)
    assert len(problems) == 1
    assert problem in problems[0]


def test_a_request_without_an_id_gets_one_that_is_part_of_its_body() -> None:
    good, _ = read(f"{body()}\n{body(job_id='mine')}")
    assert [(each.job_id, json.loads(each.body)["job_id"]) for each in good] == [
        ("flights_clean-1", "flights_clean-1"),
        ("mine", "mine"),
    ]


def test_the_same_request_twice_is_allowed() -> None:
    good, problems = read(f"{body(job_id='a')}\n{body(job_id='a')}")
    assert (len(good), problems) == (2, [])


def test_a_request_that_is_too_large_for_the_queue_is_refused() -> None:
    _, (problem,) = read(body(params={"x": "y" * 1_048_576}))
    assert "into the queue's 1,032,192 bytes" in problem
