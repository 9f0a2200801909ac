from dataclasses import replace
from datetime import timedelta

from longhaul.domain.beat import Beat, End, Extend, HandOver, Kill, beaten, decide_beat
from longhaul.domain.lease import Lease, State
from longhaul.settings import LeaseSettings
from tests.builders import NOW, running

ATTEMPT = running().id


def decide(lease: Lease | None, age_s: float) -> Beat:
    return decide_beat(lease, ATTEMPT, LeaseSettings(), NOW + timedelta(seconds=age_s))


def alive(age_s: float, **changes: object) -> Lease:
    return replace(running(), **{"progress_at": NOW + timedelta(seconds=age_s - 5), **changes})


def test_a_living_job_is_extended_in_proportion_to_its_age() -> None:
    assert decide(alive(20), 20) == Extend("handle-m-1-1", visibility_s=79, wait_s=15)
    assert decide(alive(1_000), 1_000) == Extend("handle-m-1-1", visibility_s=185, wait_s=100)


def test_without_a_handle_only_the_row_is_kept_up() -> None:
    assert decide(alive(1_000, receipt_handle=None), 1_000) == Extend(None, visibility_s=185, wait_s=100)


def test_the_message_is_handed_over_before_sqs_gives_up_on_the_receive() -> None:
    assert decide(alive(41_400), 41_400) == HandOver("handle-m-1-1", wait_s=300)


def test_the_age_that_counts_for_the_hand_over_is_that_of_the_receive() -> None:
    received = NOW + timedelta(seconds=41_000)
    assert decide(alive(50_000, received_at=received), 50_000) == Extend("handle-m-1-1", visibility_s=435, wait_s=300)


def test_a_settled_attempt_ends_its_heartbeat_quietly() -> None:
    assert decide(alive(20, state=State.SUCCEEDED, settled_attempt=1), 20) == End()
    assert decide(alive(20, attempt=2, settled_attempt=1), 20) == End()


def test_an_attempt_that_does_not_hold_the_lease_is_told_so() -> None:
    beat = decide(alive(20, attempt=2), 20)
    assert isinstance(beat, Kill)
    assert beat.reason == "LeaseLost"
    assert decide(None, 20) == Kill("LeaseLost", "the lease row is gone")


def test_a_cancel_mark_ends_the_job() -> None:
    beat = decide(alive(20, cancel_requested_at=NOW), 20)
    assert isinstance(beat, Kill)
    assert beat.reason == "JobCancelled"


def test_a_job_without_progress_for_its_stall_timeout_is_stalled() -> None:
    silent = alive(905, beat_ages_s=(800, 960))
    assert isinstance(decide(silent, 1_799), Extend)
    assert decide(silent, 1_800) == Kill("JobStalled", "no progress for 15m (stall_timeout 15m)")


def test_a_job_is_not_stalled_while_its_row_takes_no_reports() -> None:
    after_an_outage = alive(905, beat_ages_s=(800, 959))
    assert decide(after_an_outage, 2_400) == Extend("handle-m-1-1", visibility_s=79, wait_s=15)
    assert isinstance(decide(beaten(after_an_outage, NOW + timedelta(seconds=2_400)), 2_415), Kill)


def test_where_a_stall_is_seen_soon_a_report_is_overdue_sooner() -> None:
    assert isinstance(decide(alive(105, stall_timeout_s=30, beat_ages_s=(115,)), 130), Kill)
    assert isinstance(decide(alive(105, stall_timeout_s=30, beat_ages_s=(114,)), 130), Extend)


def test_a_task_that_never_gave_a_sign_of_life_is_stalled_after_the_start_timeout() -> None:
    assert isinstance(decide(running(), 599), Extend)
    assert decide(running(), 600) == Kill("JobStalled", "the task gave no sign of life within 10m")


def test_a_beat_is_kept_with_the_age_of_its_attempt_which_is_never_more_than_it_is() -> None:
    once = beaten(running(), NOW + timedelta(seconds=15.9))
    assert (once.beats, once.beat_ages_s) == (1, (15,))
    # The clock of the function that claimed was ahead.
    assert beaten(running(), NOW - timedelta(seconds=2)).beat_ages_s == (0,)
