"""The row after an attempt has ended."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.domain.classify import classify
from longhaul.domain.lease import Lease, Owed, State
from longhaul.domain.outcome import cancel_waiting, noted_gone, struck
from longhaul.domain.settlement import Settlement, after_verdict
from longhaul.domain.verdict import Evidence, OutcomeClass, Verdict
from longhaul.settings import LeaseSettings, RequestLimits
from tests.builders import NOW, OUTPUT, changed, running, stage

STARTED = changed(running(), progress_at=NOW, task_arn="arn:task")


def settled(
    kind: OutcomeClass, lease: Lease = STARTED, *, stop_task: bool = False, seed: int = 1
) -> Settlement:
    verdict = Verdict(kind, "why", stop_task)
    return after_verdict(lease, verdict, stage(), LeaseSettings(), NOW, random.Random(seed))


REFUSED = {
    "no-room": Evidence("ECS.ClientException", "Capacity is unavailable at this time."),
    "full-quota": Evidence(
        "ECS.ClientException",
        "You've reached the limit on the number of vCPUs you can run concurrently",
    ),
    "throttled": Evidence("ECS.AmazonECSException", "Rate exceeded"),
    "no-answer": Evidence("ECS.SdkClientException", ""),
    "not-allowed": Evidence("ECS.AccessDeniedException", "not authorized to perform iam:PassRole"),
    "emr-serverless": Evidence("EMRServerless.ServiceQuotaExceededException", ""),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_count_as_nothing_and_end_a_job_after_a_week_only(case: str) -> None:
    evidence, kind = REFUSED[case], "refused" if case == "not-allowed" else "not_placed"
    row, now, refusals = running(failures=2, interruptions=19), NOW, 0
    while row.state is not State.DEAD:
        row = replace(row, state=State.RUNNING)
        settlement = after_verdict(
            row, classify(row, evidence), stage(), LeaseSettings(), now, random.Random(refusals)
        )
        row, refusals = settlement.lease, refusals + 1
        assert (row.failures, row.interruptions, row.last_class) == (2, 19, kind)
        now += timedelta(seconds=max(1, settlement.retry_in_s or 0))
    assert row.settled_at is not None
    assert timedelta(days=7) <= row.settled_at - NOW <= timedelta(days=7, minutes=15)
    assert 1_000 < refusals < 2_000  # under 15 minutes between two
    assert (row.last_error or "").startswith("not placed for 7d")


def test_task_that_starts_ends_the_time_without_a_place() -> None:
    long_ago = NOW - timedelta(days=6, hours=23)
    row = settled(OutcomeClass.INTERRUPTED, replace(STARTED, unplaced_since=long_ago)).lease
    assert row.unplaced_since is None


def test_success_owes_its_publish_and_the_delete() -> None:
    after = settled(OutcomeClass.SUCCEEDED, changed(STARTED, output=OUTPUT)).lease
    assert (after.state, after.owed, after.settled_attempt) == (
        State.SUCCEEDED,
        (Owed.PUBLISH, Owed.DELETE),
        1,
    )


def test_success_in_a_stage_with_next_owes_its_follow_ons_before_the_delete() -> None:
    verdict = Verdict(OutcomeClass.SUCCEEDED, "")
    after = after_verdict(
        STARTED, verdict, stage(next=("other",)), LeaseSettings(), NOW, random.Random(1)
    ).lease
    assert after.owed == (Owed.PUBLISH, Owed.FOLLOW_ONS, Owed.DELETE)


def test_success_already_published_by_the_runner_owes_only_the_delete() -> None:
    assert settled(
        OutcomeClass.SUCCEEDED, changed(STARTED, output=OUTPUT, published_at=NOW)
    ).lease.owed == (Owed.DELETE,)


def test_failure_is_counted_and_released_within_its_back_off() -> None:
    settlement = settled(OutcomeClass.FAILED)
    assert (settlement.lease.state, settlement.lease.failures, settlement.lease.interruptions) == (
        State.RELEASED,
        1,
        0,
    )
    assert settlement.retry_in_s is not None
    assert 0 <= settlement.retry_in_s <= 10
    assert settlement.lease.retry_at == NOW + timedelta(seconds=settlement.retry_in_s)


def test_last_failure_owes_a_dead_letter_before_the_delete() -> None:
    after = settled(OutcomeClass.FAILED, replace(STARTED, failures=2)).lease
    assert (after.state, after.failures, after.owed) == (
        State.DEAD,
        3,
        (Owed.DEAD_LETTER, Owed.DELETE),
    )


def test_permanent_failure_is_dead_at_once() -> None:
    assert settled(OutcomeClass.PERMANENT).lease.state is State.DEAD


def test_interruption_does_not_count_as_a_failure() -> None:
    after = settled(OutcomeClass.INTERRUPTED, replace(STARTED, failures=2)).lease
    assert (after.state, after.failures, after.interruptions) == (State.RELEASED, 2, 1)


@pytest.mark.parametrize(("before", "most_s"), [(0, 0), (1, 10), (2, 20)])
def test_the_first_interruption_is_retried_at_once_and_later_ones_back_off(
    before: int, most_s: int
) -> None:
    waits = [
        settled(
            OutcomeClass.INTERRUPTED, replace(STARTED, interruptions=before), seed=seed
        ).retry_in_s
        for seed in range(200)
    ]
    assert max(wait or 0 for wait in waits) == most_s


def test_interruptions_are_limited_too() -> None:
    assert (
        settled(OutcomeClass.INTERRUPTED, replace(STARTED, interruptions=18)).lease.state
        is State.RELEASED
    )
    assert (
        settled(OutcomeClass.INTERRUPTED, replace(STARTED, interruptions=19)).lease.state
        is State.DEAD
    )


def test_after_a_stop_the_next_attempt_waits_for_the_stop_timeout() -> None:
    assert settled(OutcomeClass.STALLED, stop_task=True).retry_in_s == 150


def test_out_of_memory_is_retried_with_the_next_size_up_to_the_largest() -> None:
    assert settled(OutcomeClass.OUT_OF_MEMORY).lease.input.size == "medium"
    largest = replace(
        STARTED,
        execution_input=STARTED.input.model_copy(update={"size": "xlarge"}).model_dump_json(),
    )
    after = settled(OutcomeClass.OUT_OF_MEMORY, largest).lease
    assert (after.state, after.input.size) == (State.RELEASED, "xlarge")


@pytest.mark.parametrize(("size", "next_size"), [("small", "medium"), ("large", "large")])
def test_out_of_memory_grows_a_job_to_the_ceiling_of_its_stage_alone(
    size: str, next_size: str
) -> None:
    execution = STARTED.input.model_copy(update={"size": size})
    after = after_verdict(
        replace(STARTED, execution_input=execution.model_dump_json()),
        Verdict(OutcomeClass.OUT_OF_MEMORY, ""),
        stage(limits=RequestLimits(max_size="medium")),
        LeaseSettings(),
        NOW,
        random.Random(1),
    ).lease
    assert after.input.size == next_size


def test_too_little_disk_goes_on_with_the_next_size_and_does_not_count() -> None:
    last = replace(STARTED, failures=STARTED.max_attempts - 1)
    after = settled(OutcomeClass.OUT_OF_DISK, last).lease
    assert (after.state, after.input.size) == (State.RELEASED, "medium")
    assert after.failures == last.failures
    # It waits as after a first failure, however many there were.
    first = settled(OutcomeClass.FAILED).retry_in_s
    assert settled(OutcomeClass.OUT_OF_DISK, last).retry_in_s == first == 2


@pytest.mark.parametrize(
    ("engine", "advice"),
    [
        ("fargate", "use the engine emr-serverless, or split the inputs over several jobs"),
        ("emr-serverless", "split the inputs over several jobs"),
    ],
)
def test_too_little_disk_at_the_largest_size_is_the_end_and_names_the_way_out(
    engine: str, advice: str
) -> None:
    execution = STARTED.input.model_copy(update={"size": "medium", "engine": engine})
    after = after_verdict(
        replace(STARTED, execution_input=execution.model_dump_json()),
        Verdict(OutcomeClass.OUT_OF_DISK, "No space left on device"),
        stage(limits=RequestLimits(max_size="medium")),
        LeaseSettings(),
        NOW,
        random.Random(1),
    ).lease
    assert (after.state, after.last_class, after.failures) == (State.DEAD, "out_of_disk", 1)
    assert after.owed == (Owed.DEAD_LETTER, Owed.DELETE)
    assert after.last_error == (
        f"medium is the largest size that the stage allows; {advice} (No space left on device)"
    )


def test_cancelled_job_is_not_retried_whatever_way_its_task_ended() -> None:
    assert settled(OutcomeClass.CANCELLED).lease.owed == (Owed.DELETE,)
    after = settled(OutcomeClass.INTERRUPTED, replace(STARTED, cancel_requested_at=NOW)).lease
    assert (after.state, after.last_class) == (State.CANCELLED, "cancelled")


def test_success_forgets_the_error_of_an_earlier_attempt() -> None:
    tried_before = replace(changed(STARTED, output=OUTPUT), last_error="out of memory")
    assert settled(OutcomeClass.SUCCEEDED, tried_before).lease.last_error is None


def test_job_cancelled_between_attempts_has_ended_at_that_time_and_owes_its_delete() -> None:
    later = NOW + timedelta(minutes=5)
    after = cancel_waiting(settled(OutcomeClass.FAILED).lease, later)
    assert (after.state, after.last_class, after.settled_at, after.owed) == (
        State.CANCELLED,
        "cancelled",
        later,
        (Owed.DELETE,),
    )


def test_what_is_done_is_struck_off_and_the_rest_stays_owed() -> None:
    later = NOW + timedelta(minutes=5)
    ended = settled(OutcomeClass.SUCCEEDED, changed(STARTED, output=OUTPUT)).lease
    published = struck(ended, Owed.PUBLISH, later)
    assert (published.owed, published.attempt.published_at) == ((Owed.DELETE,), later)
    deleted = struck(published, Owed.DELETE, later + timedelta(minutes=1))
    assert (deleted.owed, deleted.attempt.published_at) == ((), later)


def test_uploads_that_are_gone_are_noted_with_the_time_of_the_look() -> None:
    assert noted_gone(STARTED, NOW).attempt.gone_at == NOW


def test_long_error_is_cut() -> None:
    after = after_verdict(
        STARTED,
        Verdict(OutcomeClass.FAILED, "x" * 10_000),
        stage(),
        LeaseSettings(),
        NOW,
        random.Random(1),
    ).lease
    assert after.last_error is not None
    assert 797 <= len(after.last_error) <= 800
