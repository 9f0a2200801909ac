"""A secret in a message shows in no log line, no row's reason and no dead letter's explanation.

Only its beginning may, as long as a name that is quoted.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from longhaul.core.lease import State
from tests.builders import BODY, BUCKET
from tests.handlers.any_message import JSON, TEXT, message_attribute
from tests.handlers.conftest import Log
from tests.handlers.life import Life
from tests.handlers.stack import Stack, deployed
from tests.handlers.test_any_message import EXAMPLES, records_of

SECRET = "hunter2! correct horse battery staple {}"
MOST_SHOWN = 24
FIELDS = st.sampled_from([*BODY, "mode", "size", "timeout", "max_attempts", "job_id", "lineage"])


# Each puts the secret somewhere into a body.
PLACES = (
    st.builds(lambda name: {name: SECRET}, FIELDS)
    | st.builds(lambda name: {name: {SECRET: 1}}, FIELDS)
    | st.builds(lambda name: {name: [SECRET]}, FIELDS)
    | st.builds(lambda value: {SECRET: value}, JSON)
    | st.builds(lambda name, value: {"params": {name: [value, SECRET]}}, TEXT, JSON)
    | st.just({"inputs": {SECRET: f"s3://{BUCKET}/x"}})
    | st.sampled_from(
        [f"s3://{SECRET}/x", f"s3://{BUCKET}/{SECRET}/../x", f"s3://{BUCKET}/*{SECRET}", SECRET]
    ).map(lambda place: {"inputs": {"flights": place}, "output": place})
    | st.just({"job": f"s3://{SECRET}/{SECRET}.py"})
    | st.just({"job": "hunter2_correct_horse_battery_staple"})
)
BODIES = PLACES.map(lambda changes: json.dumps({**BODY, **changes})) | st.sampled_from(
    [SECRET, json.dumps(SECRET), f'{{"params": "{SECRET}"', f'{{"params": NaN, "x": "{SECRET}"}}']
)
ATTRIBUTES = st.dictionaries(
    st.sampled_from(
        [
            "job_id",
            "longhaul_first_sent",
            "longhaul_renews",
            "longhaul",
            "theirs",
        ]
    ),
    st.sampled_from(
        [SECRET, json.dumps({"x": message_attribute(SECRET)}), json.dumps({"x": SECRET})]
    ).map(message_attribute),
)


@pytest.fixture(scope="module")
def roomy(output: Path) -> Iterator[Life]:
    with deployed(slots=10_000) as stack:
        yield Life(stack, output)


def explanations(stack: Stack) -> list[str]:
    letters = stack.sqs.queues[stack.dead_letters_url].messages
    found = [letter.attributes["longhaul"]["StringValue"] for letter in letters.values()]
    letters.clear()
    return found


def assert_not_shown(text: str) -> None:
    for secret in (SECRET, "hunter2_correct_horse_battery_staple"):
        assert secret[: MOST_SHOWN + 1] not in text


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=BODIES, attributes=ATTRIBUTES)
@example(body=json.dumps({**BODY, SECRET: 1}), attributes={})
@example(body=json.dumps({**BODY, "job": "hunter2_correct_horse_battery_staple"}), attributes={})
def test_no_reason_and_no_log_line_shows_a_secret_of_a_message(
    roomy: Life, log: Log, body: str, attributes: dict[str, Any]
) -> None:
    log.clear()
    roomy.dispatch(records_of(roomy.stack, body, attributes))
    for text in (*map(json.dumps, log), *explanations(roomy.stack)):
        assert_not_shown(text)
    for row in roomy.rows():
        if row.state is State.RUNNING:
            roomy.settle(row, "exit-65-permanent")
            settled = roomy.stack.load(row.key)
            assert settled.state is State.DEAD
            assert_not_shown(str(settled.last_error))
    for text in (*map(json.dumps, log), *explanations(roomy.stack)):
        assert_not_shown(text)


class QuotingError(Exception):
    """As botocore's ParamValidationError and pydantic's ValidationError: quotes what it refuses."""


@pytest.mark.parametrize("cause", [None, ValueError(SECRET)], ids=["alone", "caused"])
def test_an_error_is_logged_with_its_class_and_frames_and_without_its_text(
    roomy: Life, log: Log, monkeypatch: pytest.MonkeyPatch, cause: Exception | None
) -> None:
    def put(*_: Any) -> None:
        raise QuotingError(SECRET) from cause

    monkeypatch.setattr("longhaul.core.objects.S3Requests.put", put)
    log.clear()
    roomy.submit(f"fails-{type(cause).__name__}")
    (line,) = log
    assert line["message"] == "this message stays in the queue"
    assert "QuotingError" in line["exception"]
    assert "dispatch.py" in line["exception"]
    assert ("ValueError" in line["exception"]) is (cause is not None)
    assert "hunter2" not in json.dumps(line)


# Every line of the log about a job names the job, its attempt and its execution.


def named(line: dict[str, Any]) -> tuple[Any, Any, Any]:
    return line.get("job_id"), line.get("attempt"), line.get("execution")


def names(life: Life, job_id: str, attempt: int = 1) -> tuple[Any, Any, Any]:
    row = life.row(job_id)
    return job_id, attempt, f"{row.id.key_hash}-{row.run}-{attempt}"


def test_every_function_names_the_attempt_and_its_label_in_its_lines(life: Life, log: Log) -> None:
    first = life.running("january", label="7 October")
    life.stack.aws.clock.advance(70)
    life.beat(first)
    life.stack.aws.clock.advance(10_000)  # no progress for a long time
    life.beat(first)
    life.settle(first, "stalled")
    life.deliver(after_s=400)
    second = life.row("january")
    life.close(second, "ABORTED")
    assert life.sweep(after_s=1_000)["settled"] == 1
    logged = [(line["message"], *named(line)) for line in log]
    assert logged[:4] == [
        ("job claimed", *names(life, "january")),
        ("beat ends the job", *names(life, "january")),
        ("attempt settled", *names(life, "january")),
        ("job claimed", *names(life, "january", 2)),
    ]
    assert ("attempt settled", *names(life, "january", 2)) in logged
    assert logged[-1] == ("swept", None, None, None)
    assert [line.get("label") for line in log] == ["7 October"] * (len(log) - 1) + [None]
