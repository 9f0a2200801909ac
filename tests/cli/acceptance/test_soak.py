"""A soak by the minute, and when it has failed."""

from datetime import timedelta

import pytest

from longhaul.cli.acceptance.cases import Trial
from longhaul.cli.acceptance.soak import CASE, by_minute, soaked, trials
from longhaul.cli.acceptance.verdicts import Verdict
from longhaul.cli.acceptance.watcher import Observed
from longhaul.domain.lease import State
from simulation.aws.clock import VirtualClock
from tests.builders import NOW, running, stage


def over(
    second: float, wait_s: float, state: State = State.SUCCEEDED, receives: int = 1
) -> Observed:
    """A job that was claimed at that second after such a wait, and ended 20 s later."""
    claimed_at = NOW + timedelta(seconds=second)
    observed = Observed(Trial(CASE, stage(), "x", "{}"), NOW, NOW, is_over=True)
    observed.row = running(
        claimed_at=claimed_at,
        first_sent_at=claimed_at - timedelta(seconds=wait_s),
        receive_count=receives,
        state=state,
    )
    observed.gone_at = claimed_at + timedelta(seconds=20)
    return observed


def test_receives_and_deletes_are_counted_by_the_minute() -> None:
    seen = [over(0, 1), over(30, 3, receives=2), over(50, 2), over(130, 4)]
    assert [(each.receives, each.deletes, each.wait_s) for each in by_minute(seen)] == [
        (4, 2, 2),
        (0, 1, None),
        (1, 1, 4),
    ]


@pytest.mark.parametrize(("last_waits", "verdict"), [(2, Verdict.PASSED), (30, Verdict.FAILED)])
def test_a_queue_that_slows_down_has_failed(last_waits: float, verdict: Verdict) -> None:
    seen = [over(n, 1 if n < 20 else last_waits) for n in range(30)]
    assert soaked(seen, 30).result.verdict is verdict


def test_a_job_that_does_not_succeed_has_failed_the_soak() -> None:
    found = soaked([over(0, 1), over(1, 1, State.DEAD), over(2, 1)], 3).result
    assert (found.verdict, "2 of 3 jobs succeeded" in found.happened) == (Verdict.FAILED, True)
    assert soaked([], 3).result.verdict is Verdict.FAILED


def test_jobs_are_sent_until_the_time_is_over() -> None:
    clock = VirtualClock()
    names = []
    for each in trials(lambda case, name: Trial(case, stage(), name, ""), clock, 60):
        names.append(each.job_id)
        clock.advance(25)
    assert names == ["soak-00001", "soak-00002", "soak-00003"]
