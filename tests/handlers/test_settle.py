"""The table of outcomes, from the payloads that `.sync` really hands over."""

import json
from typing import Any

import pytest

from functions.settle import lambda_handler
from longhaul.domain.errors import LeaseChangedError
from longhaul.domain.lease import CommittedOutput, Owed, RecordedResult, State
from longhaul.domain.pending import pending_ref
from tests.builders import BUCKET
from tests.events import cases, event
from tests.handlers.conftest import Context, Stack

TASK = "arn:aws:ecs:us-east-1:123456789012:task/Longhaul/0123"
INTERRUPTED = {
    "emr-cancelled-by-hand",
    "emr-exit-73-superseded",
    "emr-exit-75-told-to-stop",
    "emr-never-started",
    "emr-no-capacity",
    "emr-start-throttled",
    "exit-73-superseded",
    "exit-75-told-to-stop",
    "infrastructure-health",
    "no-capacity",
    "run-task-failures",
    "run-task-throttled",
    "run-task-throttled-in-disguise",
    "spot-interruption",
    "stopped-by-hand",
    "task-definition-inactive",
    "task-failed-to-start",
    "termination-notice",
}
COUNTED = {
    "emr-exit-1": "failed",
    "emr-out-of-memory": "out_of_memory",
    "emr-success": "no_output",
    "exit-0": "no_output",
    "exit-1": "failed",
    "killed": "failed",
    "out-of-memory": "out_of_memory",
    "stalled": "stalled",
    "timed-out": "timed_out",
}


def settle(case: str, context: Context) -> str:
    return str(lambda_handler(event("settle", case), context)["outcome"])


def started(stack: Stack, **changes: Any) -> None:
    lease = stack.claim(**changes)
    stack.parts.leases.register_task(lease.id, TASK, lease.claimed_at)
    stack.parts.leases.report_progress(lease.id, {"phase": "running"}, lease.claimed_at)


@pytest.mark.parametrize("case", cases("settle"))
def test_every_end_has_its_place_in_the_table(stack: Stack, context: Context, case: str) -> None:
    started(stack)
    outcome = settle(case, context)
    row = stack.row()
    if case in INTERRUPTED:
        assert (outcome, row.last_class, row.failures, row.interruptions) == ("RELEASED", "interrupted", 0, 1)
    elif case in COUNTED:
        assert (outcome, row.last_class, row.failures, row.interruptions) == ("RELEASED", COUNTED[case], 1, 0)
    elif case in ("exit-65-permanent", "emr-exit-65-permanent"):
        assert (outcome, row.last_class, row.owed) == ("DEAD", "permanent", ())
        assert stack.messages() == (0, 0)
        assert len(stack.dead_letters()) == 1
    elif case == "cancelled":
        assert (outcome, row.state, row.owed) == ("CANCELLED", State.CANCELLED, ())
        assert stack.messages() == (0, 0)
    else:
        # The lease-lost event reached settle although the row says that the attempt owns it: not a word of it is believed, the job is tried again.
        assert (case, outcome, row.interruptions) == ("lease-lost", "RELEASED", 1)
    throttled = {
        "emr-no-capacity",
        "emr-start-throttled",
        "no-capacity",
        "run-task-failures",
        "run-task-throttled",
        "run-task-throttled-in-disguise",
    }
    assert stack.free_slots() == (
        5 if case in throttled else 10
    )  # all given back; fewer from now on when AWS could not keep up
    may_still_run = {
        "cancelled",
        "emr-exit-73-superseded",
        "exit-73-superseded",
        "lease-lost",
        "stalled",
        "timed-out",
    }
    assert stack.stopped_tasks == ([TASK] if case in may_still_run else [])


def test_an_attempt_that_lost_its_lease_writes_nothing(stack: Stack, context: Context) -> None:
    stack.claim(attempt=2)
    before = stack.row()
    assert settle("exit-1", context) == "SUPERSEDED"
    assert stack.row() == before


def test_the_last_failure_is_dead_lettered_with_its_reason(stack: Stack, context: Context) -> None:
    started(stack, failures=2)
    assert settle("exit-1", context) == "DEAD"
    ((_, why),) = stack.dead_letters()
    assert (why["class"], why["attempts"], why["failures"], why["log_location"]) == (
        "failed",
        3,
        3,
        "/longhaul/jobs:job/job/0123",
    )
    assert why["reason"].startswith("exit code 1")


def test_what_the_runner_recorded_beats_its_exit_code(stack: Stack, context: Context) -> None:
    started(stack)
    stack.parts.leases.record_result(
        stack.row().id, RecordedResult(1, "permanent", "input 'flights' is missing: s3://longhaul-data/raw/")
    )
    assert settle("exit-1", context) == "DEAD"
    ((_, why),) = stack.dead_letters()
    assert why["reason"] == "input 'flights' is missing: s3://longhaul-data/raw/"


@pytest.mark.parametrize(("case", "kind"), [("stalled", "stalled"), ("timed-out", "timed_out")])
def test_a_runner_that_was_told_to_stop_does_not_know_that_its_job_had_stalled_or_overrun(
    stack: Stack, context: Context, case: str, kind: str
) -> None:
    started(stack)
    stack.parts.leases.record_result(stack.row().id, RecordedResult(1, "interrupted", "asked to stop (SIGTERM)"))
    assert settle(case, context) == "RELEASED"
    assert (stack.row().last_class, stack.row().failures, stack.row().interruptions) == (kind, 1, 0)


def committed(stack: Stack) -> CommittedOutput:
    """An attempt that committed an output of no files and published nothing."""
    started(stack)
    row = stack.row()
    prefix = f"s3://{BUCKET}/out/"
    output = CommittedOutput(row.attempt, pending_ref(row.id), prefix, 0, 0)
    manifest = {"key": row.key, "run": row.run, "attempt": row.attempt, "files": []}
    pending = {"token": row.id.token, "prefix": prefix, "manifest": manifest}
    stack.parts._s3.put_object(Bucket=BUCKET, Key=output.pending_ref, Body=json.dumps(pending).encode())
    stack.parts.leases.commit(row.id, output)
    return output


@pytest.mark.parametrize("case", ["exit-0", "killed", "timed-out", "cancelled", "spot-interruption"])
def test_an_attempt_that_committed_has_succeeded_whatever_ended_its_task(
    stack: Stack, context: Context, case: str
) -> None:
    committed(stack)
    assert settle(case, context) == "SUCCEEDED"
    assert stack.row().is_finished
    assert stack.messages() == (0, 0)
    assert stack.parts._s3.get_object(Bucket=BUCKET, Key="out/_SUCCESS")["ContentLength"] > 0


def test_a_commit_that_comes_between_look_and_write_wins(
    stack: Stack, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(stack)
    write = type(stack.parts.leases).settle
    calls: list[str] = []

    def commit_meanwhile(leases: Any, before: Any, after: Any) -> None:
        calls.append(after.state)
        if len(calls) == 1:
            row = stack.row()
            leases.commit(row.id, CommittedOutput(1, pending_ref(row.id), f"s3://{BUCKET}/out/", 0, 0))
            leases.mark_published(row.id, row.claimed_at)
        write(leases, before, after)

    monkeypatch.setattr("longhaul.adapters.dynamodb_leases.DynamoLeases.settle", commit_meanwhile)
    assert settle("exit-1", context) == "SUCCEEDED"
    assert calls == ["RELEASED", "SUCCEEDED"]


@pytest.mark.parametrize("act", ["publish", "send", "delete", "strike"])
def test_whatever_was_left_undone_is_done_by_the_next_call(
    stack: Stack, context: Context, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    target = {
        "publish": "longhaul.adapters.s3_publisher.S3Publisher.publish",
        "send": "longhaul.adapters.sqs_queue.SqsQueue.send",
        "delete": "longhaul.adapters.sqs_queue.SqsQueue.delete",
        "strike": "longhaul.adapters.dynamodb_leases.DynamoLeases.strike",
    }[act]
    if act == "publish":
        committed(stack)
    else:
        started(stack, failures=2)
    expected = "SUCCEEDED" if act == "publish" else "DEAD"
    with monkeypatch.context() as crash:
        crash.setattr(target, lambda *_: (_ for _ in ()).throw(TimeoutError))
        with pytest.raises(TimeoutError):
            settle("exit-1", context)
    assert stack.row().owed[-1] is Owed.DELETE
    assert settle("exit-1", context) == expected
    assert stack.row().is_finished
    assert stack.messages() == (0, 0)


def test_without_a_handle_only_the_state_changes_and_nothing_stays_owed_for_a_message_that_may_never_come(
    stack: Stack, context: Context
) -> None:
    started(stack)
    row = stack.row()
    stack.parts.leases.hand_over(row.id, str(row.receipt_handle))
    assert settle("exit-65-permanent", context) == "DEAD"
    assert stack.row().is_finished
    assert len(stack.dead_letters()) == 1
    assert stack.messages() == (0, 1)


def test_an_output_published_by_its_runner_behind_settles_back_is_not_void_though_its_list_is_gone(
    stack: Stack, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = committed(stack)
    write = type(stack.parts.leases).settle

    def published_meanwhile(leases: Any, before: Any, after: Any) -> None:
        leases.mark_published(before.id, before.claimed_at)
        write(leases, before, after)
        stack.aws.s3.delete_object(Bucket=BUCKET, Key=output.pending_ref)  # as the sweeper does

    monkeypatch.setattr("longhaul.adapters.dynamodb_leases.DynamoLeases.settle", published_meanwhile)
    assert settle("timed-out", context) == "SUCCEEDED"
    assert stack.row().is_finished
    assert stack.messages() == (0, 0)


def test_a_void_commit_is_run_again(stack: Stack, context: Context) -> None:
    started(stack)
    row = stack.row()
    stack.parts.leases.commit(
        row.id, CommittedOutput(1, pending_ref(row.id), f"s3://{BUCKET}/out/", 1, 1)
    )  # its pending list is nowhere
    assert settle("exit-0", context) == "RELEASED"
    assert (stack.row().state, stack.row().output) == (State.RELEASED, None)


def test_a_repeated_settle_of_a_released_attempt_only_releases_again(stack: Stack, context: Context) -> None:
    started(stack)
    assert settle("exit-1", context) == "RELEASED"
    before = stack.row()
    assert settle("exit-1", context) == "RELEASED"
    assert stack.row() == before


def test_a_row_that_keeps_changing_is_left_to_the_next_try(
    stack: Stack, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(stack)

    def changed(*_: Any) -> None:
        raise LeaseChangedError(stack.row())

    monkeypatch.setattr("longhaul.adapters.dynamodb_leases.DynamoLeases.settle", changed)
    with pytest.raises(RuntimeError, match="keeps changing"):
        settle("exit-1", context)


def test_a_stall_of_a_task_that_the_platform_had_ended_is_no_failure_of_the_job(stack: Stack, context: Context) -> None:
    gone = stack.start_task(stack.claim())
    stack.aws.ecs.end(gone, stop_code="InfrastructureHealth", reason="The underlying infrastructure is unhealthy.")

    assert settle("stalled", context) == "RELEASED"

    row = stack.row()
    assert (row.last_class, row.failures, row.interruptions) == ("interrupted", 0, 1)


def test_an_attempt_that_died_before_it_registered_is_remembered_with_its_task_and_what_is_paid_for(
    stack: Stack, context: Context
) -> None:
    lease = stack.claim()
    assert settle("exit-1", context) == "RELEASED"
    (only,) = stack.parts.leases.history([stack.row()])[lease.key]
    assert (only.kind, only.started_at) == ("failed", None)
    assert only.task_arn == "arn:aws:ecs:us-east-1:123456789012:task/Longhaul/0123456789abcdef0123456789abcdef"
    assert only.task_from is not None
    assert only.task_until is not None
    assert (only.task_until - only.task_from).total_seconds() == 285  # from the pull of its image to its stop


def test_the_dead_letter_of_a_task_that_never_registered_says_where_its_log_is(stack: Stack, context: Context) -> None:
    stack.claim()
    assert settle("exit-65-permanent", context) == "DEAD"
    ((_, why),) = stack.dead_letters()
    assert why["log_location"] == f"{stack.settings.job_log_group}:job/job/0123456789abcdef0123456789abcdef"
