"""The probe ends as its plan says, attempt by attempt."""

from types import SimpleNamespace
from typing import Any

import pytest

from longhaul.catalogue import probe
from longhaul.core.errors import PermanentJobError
from longhaul.runner.loading import find_job
from longhaul.testing import MakeJob


def run(monkeypatch: pytest.MonkeyPatch, job: Any, attempt: int, spark: Any = None) -> None:
    monkeypatch.setenv("LONGHAUL_ATTEMPT", str(attempt))
    probe.run(spark, job)


def test_each_attempt_takes_its_step_and_the_last_step_stays(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job({}, probe.Params(plan=("fail", "refuse")))
    with pytest.raises(RuntimeError, match="fails, as its plan says"):
        run(monkeypatch, job, 1)
    for attempt in (2, 3):
        with pytest.raises(PermanentJobError, match="cannot succeed"):
            run(monkeypatch, job, attempt)


def test_a_wait_that_nobody_disturbs_is_a_failure(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(0, 10_000, 300))
    clock = SimpleNamespace(monotonic=lambda: next(now), sleep=lambda _: None)
    monkeypatch.setattr(probe, "time", clock)
    with pytest.raises(RuntimeError, match="not disturbed within 900 s"):
        run(monkeypatch, make_job({}, probe.Params(plan=("wait",))), 1)


def test_a_request_reaches_the_probe_and_a_step_that_it_does_not_know_is_refused() -> None:
    found = find_job("probe", pytest.fail)
    loaded = found.load({"plan": ["wait", "succeed"]}, lambda: None)
    assert loaded.params == probe.Params(plan=("wait", "succeed"))
    with pytest.raises(PermanentJobError, match=r"params\.plan\.0"):
        found.load({"plan": ["dance"]}, lambda: None)
