"""`python -m tests.fidelity.page` writes docs/fidelity.md."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill

from tests.fidelity import (
    dynamodb,
    dynamodb_expressions,
    ecs,
    glue,
    run_task_sync,
    s3,
    s3_uploads,
    sqs,
    sqs_batches,
    sqs_contents,
    sqs_redrive,
    states,
    stepfunctions,
)
from tests.fidelity.rule import NOT_ASKED, Answer, Rule

PAGE = Path(__file__).parents[2] / "docs" / "fidelity.md"
RULES: Mapping[str, Sequence[Rule]] = {
    "SQS": [*sqs.RULES, *sqs_contents.RULES, *sqs_batches.RULES, *sqs_redrive.RULES],
    "S3": [*s3.RULES, *s3_uploads.RULES],
    "DynamoDB": [*dynamodb.RULES, *dynamodb_expressions.RULES],
    "Glue": glue.RULES,
    "ECS": ecs.RULES,
    "Step Functions": [*stepfunctions.RULES, *states.RULES, *run_task_sync.RULES],
}
ENGINES = ("fake", "stock", "embedded", "oracle")
ORACLES = {"SQS": "LocalStack", "S3": "LocalStack", "DynamoDB": "DynamoDB Local"}
LACKING: Mapping[str, Mapping[str, str]] = {
    "fake": {},
    "stock": {},
    "embedded": {},
    "oracle": {
        "Glue": "LocalStack's free edition has no catalog",
        "ECS": "LocalStack's free edition runs no tasks",
        "Step Functions": "LocalStack's Step Functions and moto's are one code base",
    },
}
"""By engine, the services that it lacks or that say nothing new there, with the reason."""

_HEAD = """\
# What AWS answers, and what stands in for it

<!-- Made by `python -m tests.fidelity.page`. Change `tests/fidelity` instead. -->

Nothing here can reach AWS, so Longhaul is tested on engines that stand in for it: the strict fakes
of the simulation, the embedded AWS (moto with repairs), and two oracles that others wrote, Amazon's
DynamoDB Local and LocalStack. A third oracle, aws-local-stepfunctions, interprets the state machine
with either engine (`tests/simulation/conformance`).

Each rule below is a call whose answer matters to Longhaul, and stands here alone. AWS's answer
comes from its documentation, named by the last part of the page's address, or from answers that
LocalStack's authors recorded from AWS: then the source is the test, in the folder of AWS's services
among the tests of github.com/localstack/localstack (commit 8b9a79f05 of March 2026), with the month
of the recording. Each engine is asked in `tests/fidelity`, and a test fails when its answer is no
longer the one that stands here. The sign = says that the engine answers as AWS does; below each
table stands who is right where one differs. Where a repair makes the embedded AWS answer so, stock
moto is asked too, and its answer stands there with the repair (`longhaul/local/moto_repairs`): when
an upgrade of moto mends it, a test fails, and the repair can go.

What is no answer to a call is tested elsewhere: what the fakes draw where AWS leaves it open
(`tests/contract/test_strict_*.py`), what happens inside moto when two calls meet
(`tests/local/moto_repairs`), and whole executions of Longhaul's own state machine
(`tests/simulation/conformance`).

The oracles are installed from PyPI and npm on the first run of the slow tests, or by
`make oracles`. They need Python 3.13 or newer for LocalStack.
"""


def page() -> str:
    """The text of docs/fidelity.md."""
    return "\n".join([_HEAD, *(_section(service) for service in RULES)])


def _section(service: str) -> str:
    oracle = ORACLES.get(service, "")
    head = ["Rule", "AWS", "Fakes", "Embedded AWS", *([oracle] if oracle else []), "Source"]
    engines = ["fake", "embedded", *(["oracle"] if oracle else [])]
    rows = [head, ["---"] * len(head)]
    for rule in RULES[service]:
        answers = [_text(getattr(rule, engine)) for engine in engines]
        rows.append([_title(rule), _text(rule.aws), *answers, rule.source])
    table = [f"| {' | '.join(row)} |" for row in rows]
    notes = [
        fill(
            f"* {note}.",
            100,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for note in _notes(service)
    ]
    return "\n".join([f"## {service}", "", *table, "", *notes, ""])


def _notes(service: str) -> Iterator[str]:
    for engine in ENGINES:
        if service in LACKING[engine]:
            yield f"No {engine}: {LACKING[engine][service]}"
    for rule in RULES[service]:
        if rule.why:
            yield f"{_title(rule)}: {rule.why}"
        if rule.repair:
            stock = _text(rule.repair.stock)
            yield f"{_title(rule)}: stock moto answers {stock} (`{rule.repair.module}`)"


def _title(rule: Rule) -> str:
    return rule.name[:1].upper() + rule.name[1:]


def _text(answer: Answer | None) -> str:
    if answer is None:
        return "="
    if answer == NOT_ASKED:
        return NOT_ASKED
    if not answer:
        return "an error without a code"
    return f"`{answer}`" if isinstance(answer, str) else " or ".join(f"`{each}`" for each in answer)


if __name__ == "__main__":
    PAGE.write_text(page())
