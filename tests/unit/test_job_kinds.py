"""What kind of job a file is, by its text."""

import ast

import pytest

from longhaul.core.job_kinds import JobKind, SignatureError, kind_of


def kind(text: str) -> JobKind:
    return kind_of(ast.parse(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def run(spark, job): ...", JobKind.SPARK),
        ("def run(_spark, job): ...", JobKind.SPARK),
        ("def run(job): ...", JobKind.PLAIN),
        ("def run(job, /, *, limit=3): ...", JobKind.PLAIN),
        ("def run(job):\n    def rows():\n        yield 1\n    job.write(rows())", JobKind.PLAIN),
        ("@drained\ndef run(job):\n    yield 1", JobKind.PLAIN),
        ("print(1)", JobKind.SCRIPT),
        ("def run(data): ...\nrun(1)", JobKind.SCRIPT),
        # As Python has it, the last one counts.
        ("def run(spark, job): ...\ndef run(job): ...", JobKind.PLAIN),
    ],
)
def test_run_with_its_parameters_says_the_kind(text: str, expected: JobKind) -> None:
    assert kind(text) is expected


@pytest.mark.parametrize(
    "text",
    [
        "def run(data): ...",
        "def run(job, spark): ...",
        "async def run(job): ...",
        "def run(job, *, limit): ...",
        "def run(*, job): ...",
        "def run(spark, *, job): ...",
        "def run(job):\n    yield 1",
        "def run(spark, job):\n    for n in ():\n        yield from n",
        "def run(job): ...\nasync def run(job): ...",
    ],
)
def test_run_that_nothing_would_call_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(SignatureError) as raised:
        kind(text)
    assert raised.value.line == text.count("\n") + 1
