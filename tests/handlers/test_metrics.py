"""The handlers' metrics, as CloudWatch Logs extracts them from their output."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions import dispatcher, heartbeat, settle, sweeper
from longhaul.core import transitions
from longhaul.core.lease import CommittedOutput, State
from longhaul.core.metrics import StageMetric, SweeperMetric
from longhaul.saved.record import record_ref
from tests.builders import BUCKET, changed
from tests.emf import metrics_in
from tests.events import event
from tests.handlers.stack import Context, Stack

STAGE = frozenset({("stage", "main")})


class Reader:
    """Reads the metrics since the last read, by name.

    Each one must have the stage as its only dimension, or be one of the sweeper's.
    """

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def new(self) -> dict[str, float]:
        found = {}
        for datum in metrics_in(self._capsys.readouterr().out):
            own = frozenset({("service", "sweeper")}) if datum.name in set(SweeperMetric) else STAGE
            assert (datum.namespace, datum.dimensions) == ("Longhaul", own)
            found[datum.name] = datum.value
        return found


@pytest.fixture
def metrics(capsys: pytest.CaptureFixture[str]) -> Reader:
    return Reader(capsys)


def dispatch(context: Context, case: str = "new-job", **record: Any) -> None:
    found = event("dispatcher", case)
    dispatcher.lambda_handler({"Records": [each | record for each in found["Records"]]}, context)


def sweep(context: Context) -> None:
    sweeper.lambda_handler(event("sweeper", "schedule"), context)


def test_waiting_message_that_comes_less_than_once_a_day_may_not_be_renewed(
    stack: Stack, context: Context, metrics: Reader
) -> None:
    stack.take_slots()
    record = event("dispatcher", "new-job")["Records"][0]
    sent_ms = str(round((stack.parts.clock.now() - timedelta(days=3)).timestamp() * 1000))
    for receives, counted in (("3", 1), ("4", None)):
        attributes = {"SentTimestamp": sent_ms, "ApproximateReceiveCount": receives}
        dispatch(context, attributes=record["attributes"] | attributes)
        assert metrics.new().get(StageMetric.NEAR_RETENTION) == counted


@pytest.mark.parametrize("case", ["exit-1", "spot-interruption"])
def test_what_an_attempt_has_stored_is_not_wasted(
    stack: Stack, context: Context, metrics: Reader, case: str
) -> None:
    stack.claim()
    row = stack.row()
    at = row.attempt.claimed_at + timedelta(seconds=45)
    stack.parts.leases.report(transitions.save(row.id, None, record_ref(row.id, 1), 10, at))
    settle.lambda_handler(event("settle", case), context)
    found = metrics.new()
    assert found[StageMetric.WASTED] == 15 - 45
    assert StageMetric.DEAD_LETTERED not in found  # it is released


def test_gauges_are_of_all_leases_and_messages_of_a_stage(
    stack: Stack, context: Context, metrics: Reader
) -> None:
    now, hour = stack.parts.clock.now(), timedelta(hours=1)
    first = stack.claim(lease_expires_at=now + hour)
    for n, waited in enumerate((20 * hour, 30 * hour, 10 * hour)):
        other = replace(first, key=f"main#other-{n}")
        stack.parts.leases.apply(transitions.claim(None, other, stack.settings.stages[0]))
        ended = replace(other, state=State.RELEASED, settled_attempt=1, settled_at=now - waited)
        stack.parts.leases.apply(transitions.settle(other, replace(ended, retry_at=now)))
    for n in range(2):
        overdue = replace(changed(first, lease_expires_at=now - hour), key=f"main#overdue-{n}")
        stack.parts.leases.apply(transitions.claim(None, overdue, stack.settings.stages[0]))
    for _ in range(4):
        stack.held_message()
    stack.sqs.send_message(QueueUrl=stack.jobs_url, MessageBody="{}")

    sweep(context)

    found = metrics.new()
    assert (found[StageMetric.OLDEST_WAITING], found[StageMetric.WITHOUT_BEAT]) == (108_000, 2)
    # One message is visible and five are hidden, three of them for jobs that run.
    assert (found[StageMetric.BACKLOG], found[StageMetric.FREE_SLOTS]) == (3, 7)


def test_unreachable_queue_loses_the_metrics_of_its_stage_and_not_the_sweep(
    stack: Stack, context: Context, metrics: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object) -> int:
        raise TimeoutError

    monkeypatch.setattr("longhaul.core.queue.SqsQueue.depth", unreachable)
    stack.claim(lease_expires_at=stack.parts.clock.now() - timedelta(minutes=10))
    sweep(context)
    assert metrics.new() == {
        SweeperMetric.SWEEPS: 1,
        SweeperMetric.REPAIRS: 1,
        SweeperMetric.UNREADABLE_ROWS: 0,
        SweeperMetric.OLDEST_OWED: 0,
    }


def test_handlers_together_emit_every_metric(
    stack: Stack, context: Context, metrics: Reader
) -> None:
    dispatch(context)
    dispatch(context, "invalid-not-json")
    execution = json.loads(stack.executions()[0])
    heartbeat.lambda_handler(execution, context)
    lease = stack.row()
    output = CommittedOutput(lease.attempt.number, 0, 0, prefix=f"s3://{BUCKET}/out/")
    stack.parts.leases.report(transitions.commit(lease.id, output))
    stack.parts.leases.report(transitions.mark_published(lease.id, stack.parts.clock.now()))
    settle.lambda_handler(execution | {"task": {}}, context)
    sweep(context)
    emitted = {*metrics.new()}
    denied = event("settle", "run-task-denied")["error"]
    ends = ({"Error": "States.Timeout"}, event("settle", "exit-1")["error"], denied, denied)
    for number, error in enumerate(ends, 1):
        dispatch(context, "no-job-id")
        (attempt,) = (
            each
            for each in map(json.loads, stack.executions())
            if (each["key"] != lease.key, int(each["attempt"])) == (True, number)
        )
        settle.lambda_handler(attempt | {"error": error}, context)
        stack.parts.clock.sleep(60 if error is denied else 3_600)
    sweep(context)
    emitted |= metrics.new().keys()
    assert emitted == {*StageMetric, *SweeperMetric}
