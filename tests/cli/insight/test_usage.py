"""What an attempt uses, checked against the state machine and the code."""

from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.cli.insight.usage import usage
from longhaul.domain.lease import CommittedOutput, State
from longhaul.settings import TaskSettings, TaskSize
from tests.builders import NOW, changed, record, settings
from tests.simulation.conformance.in_simulation import play
from tests.simulation.conformance.scripts import END, End, Script, beat

SETTINGS = settings(
    tasks=TaskSettings(sizes={"small": TaskSize(cpu=1024, memory_mib=4096, disk_gib=30)})
)
ENDED = record(
    started_at=NOW + timedelta(seconds=40),
    ended_at=NOW + timedelta(seconds=340),
    task_arn="arn:task/1",
    kind="succeeded",
    state=State.SUCCEEDED,
)


@pytest.mark.parametrize("beats", [0, 1, 7])
def test_transitions_are_the_states_that_the_machine_enters(beats: int) -> None:
    played = play(Script(beats=(*(beat("wait"),) * beats, END), end=End(after_beat=beats)))
    entered = [
        event for branch in played.steps.values() for event in branch if "StateEntered" in event
    ]
    assert played.status == "SUCCEEDED"
    assert usage(changed(ENDED, beats=beats), None, SETTINGS, NOW).transitions == len(entered)


def test_a_task_is_charged_for_the_time_that_ecs_reports() -> None:
    told = changed(
        ENDED, task_from=NOW + timedelta(seconds=12), task_until=NOW + timedelta(seconds=350)
    )
    used = usage(told, None, SETTINGS, NOW)
    assert (used.task_s, used.by_ecs) == (338, True)


def test_without_times_of_ecs_it_is_charged_from_the_claim_to_the_end_or_now() -> None:
    assert usage(ENDED, None, SETTINGS, NOW).task_s == 340
    assert not usage(ENDED, None, SETTINGS, NOW).by_ecs
    alive = replace(ENDED, ended_at=None, state=State.RUNNING)
    assert usage(alive, None, SETTINGS, NOW + timedelta(seconds=50)).task_s == 50


def test_an_attempt_without_a_task_is_not_charged_for_one() -> None:
    throttled = changed(
        ENDED, task_arn=None, started_at=None, kind="interrupted", state=State.RELEASED
    )
    assert usage(throttled, None, SETTINGS, NOW).task_s == 0


def test_a_hand_over_counts_as_a_beat() -> None:
    assert usage(changed(ENDED, beats=3, hand_overs=1), None, SETTINGS, NOW).beats == 4


def test_a_committed_file_is_created_uploaded_in_parts_and_completed() -> None:
    plain = usage(ENDED, None, SETTINGS, NOW).puts
    small = CommittedOutput(1, prefix="s3://b/out/", files=2, size_bytes=100)
    large = CommittedOutput(1, prefix="s3://b/out/", files=1, size_bytes=100 * 1024 * 1024)
    assert usage(ENDED, small, SETTINGS, NOW).puts == plain + 2 * 3 + 1
    assert usage(ENDED, large, SETTINGS, NOW).puts == plain + 1 + 13 + 1 + 1


def test_a_removed_size_is_unknown() -> None:
    assert usage(changed(ENDED, size="tiny"), None, SETTINGS, NOW).size is None
