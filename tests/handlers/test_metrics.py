"""What the handlers measure, as CloudWatch Logs would read it from their output."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions import dispatcher, heartbeat, settle, sweeper
from longhaul.domain.lease import CommittedOutput, State
from longhaul.domain.pending import pending_ref
from longhaul.metrics import StageMetric, SweeperMetric
from tests.builders import BUCKET, body
from tests.emf import metrics_in
from tests.events import event
from tests.handlers.conftest import Context, Stack

STAGE = frozenset({("stage", "main")})


class Reader:
    """The metrics since the last look, by name. Every one must have the stage as its only dimension, or be the sweeper's."""

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


def fill_the_stage(stack: Stack) -> None:
    stack.aws.dynamodb.update_item(
        TableName="leases",
        Key={"key": {"S": "slots#main"}, "item": {"S": "slots"}},
        UpdateExpression="SET running = :all",
        ExpressionAttributeValues={":all": {"N": "10"}},
    )


def test_a_start_is_counted_and_a_redelivery_is_not(stack: Stack, context: Context, metrics: Reader) -> None:  # noqa: ARG001 - deployed
    dispatch(context)
    assert metrics.new() == {StageMetric.STARTED: 1}
    dispatch(context)
    assert metrics.new() == {}


def test_a_body_that_can_never_run_is_counted_as_dead_lettered(
    stack: Stack,  # noqa: ARG001 - deployed
    context: Context,
    metrics: Reader,
) -> None:
    dispatch(context, "invalid-not-json")
    assert metrics.new() == {StageMetric.DEAD_LETTERED: 1}


def test_a_job_without_a_slot_tells_how_long_it_has_waited(stack: Stack, context: Context, metrics: Reader) -> None:
    fill_the_stage(stack)
    sent_ms = str(round((stack.parts.clock.now() - timedelta(hours=5)).timestamp() * 1000))
    record = event("dispatcher", "new-job")["Records"][0]
    dispatch(context, attributes=record["attributes"] | {"SentTimestamp": sent_ms})
    assert metrics.new() == {StageMetric.OLDEST_WAITING: 18_000}


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("exit-1", StageMetric.RETRIED),
        ("exit-65-permanent", StageMetric.DEAD_LETTERED),
    ],
)
def test_an_outcome_is_counted_once_however_often_settle_is_called(
    stack: Stack, context: Context, metrics: Reader, case: str, expected: StageMetric
) -> None:
    stack.claim()
    settle.lambda_handler(event("settle", case), context)
    settle.lambda_handler(event("settle", case), context)
    assert metrics.new() == {expected: 1}


def test_a_beat_tells_what_was_left_of_the_lease(stack: Stack, context: Context, metrics: Reader) -> None:
    lease = stack.claim(lease_expires_at=stack.parts.clock.now() + timedelta(seconds=40))
    heartbeat.lambda_handler(json.loads(lease.execution_input), context)
    assert metrics.new() == {StageMetric.LEASE_LEFT: 40}


def test_a_sweep_of_an_idle_stage_says_so_with_every_value(stack: Stack, context: Context, metrics: Reader) -> None:  # noqa: ARG001 - deployed
    sweep(context)
    assert metrics.new() == {
        StageMetric.BACKLOG: 0,
        StageMetric.FREE_SLOTS: 10,
        StageMetric.BLOCKED: 0,
        StageMetric.OLDEST_WAITING: 0,
        StageMetric.WITHOUT_BEAT: 0,
        StageMetric.NEAR_RETENTION: 0,
        SweeperMetric.SWEEPS: 1,
        SweeperMetric.REPAIRS: 0,
        SweeperMetric.FAILED_REPAIRS: 0,
    }


def test_a_lease_that_nobody_renewed_is_one_without_a_beat(stack: Stack, context: Context, metrics: Reader) -> None:
    stack.claim(lease_expires_at=stack.parts.clock.now() - timedelta(minutes=10))
    sweep(context)
    found = metrics.new()
    assert (found[StageMetric.WITHOUT_BEAT], found[SweeperMetric.REPAIRS]) == (1, 1)


def test_a_released_job_waits_since_its_attempt_ended_whatever_was_sent_anew_since(
    stack: Stack, context: Context, metrics: Reader
) -> None:
    lease = stack.claim()
    now = stack.parts.clock.now()
    ended = replace(lease, state=State.RELEASED, settled_attempt=1, settled_at=now - timedelta(hours=30), retry_at=now)
    stack.parts.leases.settle(lease, ended)
    sweep(context)
    assert metrics.new()[StageMetric.OLDEST_WAITING] == 108_000


def test_a_message_that_should_have_been_renewed_by_now_is_near_its_end(
    stack: Stack, context: Context, metrics: Reader
) -> None:
    now = stack.parts.clock.now()
    lease = stack.claim(sent_at=now - timedelta(days=9) + timedelta(minutes=31))
    sweep(context)
    assert metrics.new()[StageMetric.NEAR_RETENTION] == 0
    stack.parts.clock.sleep(3600)
    now = stack.parts.clock.now()
    stack.parts.leases.beat(lease, now, now + timedelta(hours=1))
    sweep(context)
    assert metrics.new()[StageMetric.NEAR_RETENTION] == 1


class TestBlocked:
    """Messages are visible, slots are free, and nothing is claimed."""

    def seen_after(self, stack: Stack, context: Context, metrics: Reader, seconds: float = 300) -> float:
        stack.parts.clock.sleep(seconds)
        sweep(context)
        return metrics.new()[StageMetric.BLOCKED]

    def test_it_grows_from_sweep_to_sweep(self, stack: Stack, context: Context, metrics: Reader) -> None:
        stack.sqs.send_message(QueueUrl=stack.jobs_url, MessageBody="{}")
        assert [self.seen_after(stack, context, metrics) for _ in range(4)] == [0, 300, 600, 900]

    def test_a_claim_ends_it(self, stack: Stack, context: Context, metrics: Reader) -> None:
        stack.sqs.send_message(QueueUrl=stack.jobs_url, MessageBody="{}")
        self.seen_after(stack, context, metrics)
        dispatch(context)
        assert [self.seen_after(stack, context, metrics) for _ in range(2)] == [0, 300]

    def test_an_empty_queue_ends_it(self, stack: Stack, context: Context, metrics: Reader) -> None:
        stack.sqs.send_message(QueueUrl=stack.jobs_url, MessageBody="{}")
        assert [self.seen_after(stack, context, metrics) for _ in range(2)] == [0, 300]
        stack.sqs.receive_message(QueueUrl=stack.jobs_url, VisibilityTimeout=310)
        assert [self.seen_after(stack, context, metrics) for _ in range(3)] == [0, 0, 300]

    def test_full_slots_are_no_blockage(self, stack: Stack, context: Context, metrics: Reader) -> None:
        fill_the_stage(stack)
        stack.sqs.send_message(QueueUrl=stack.jobs_url, MessageBody=body())
        assert [self.seen_after(stack, context, metrics) for _ in range(2)] == [0, 0]


def test_a_queue_that_cannot_be_asked_costs_the_metrics_and_not_the_sweep(
    stack: Stack, context: Context, metrics: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object) -> int:
        raise TimeoutError

    monkeypatch.setattr("longhaul.adapters.sqs_queue.SqsQueue.backlog", unreachable)
    stack.claim(lease_expires_at=stack.parts.clock.now() - timedelta(minutes=10))
    sweep(context)
    assert metrics.new() == {SweeperMetric.SWEEPS: 1, SweeperMetric.REPAIRS: 1, SweeperMetric.FAILED_REPAIRS: 0}


def test_between_them_the_handlers_emit_every_metric_that_alarms_and_dashboard_may_name(
    stack: Stack, context: Context, metrics: Reader
) -> None:
    emitted: set[str] = set()
    dispatch(context)
    dispatch(context, "invalid-not-json")
    execution = json.loads(stack.executions()[0])
    heartbeat.lambda_handler(execution, context)
    lease = stack.row()
    output = CommittedOutput(lease.attempt, pending_ref(lease.id), f"s3://{BUCKET}/out/", 0, 0)
    stack.parts.leases.commit(lease.id, output)
    stack.parts.leases.mark_published(lease.id, stack.parts.clock.now())
    settle.lambda_handler(execution | {"task": {}}, context)
    sweep(context)
    emitted |= metrics.new().keys()
    dispatch(context, "no-job-id")
    (other,) = (each for each in map(json.loads, stack.executions()) if each["key"] != lease.key)
    settle.lambda_handler(other | {"error": {"Error": "States.Timeout"}}, context)
    emitted |= metrics.new().keys()
    assert emitted == {*StageMetric, *SweeperMetric}
