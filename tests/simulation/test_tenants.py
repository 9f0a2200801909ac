"""Tenants that share a stage: one's thousands of messages delay another's few by little."""

from datetime import timedelta

import pytest

from simulation.worlds.tenants import Shared

JOB_S = 60.0
SLOTS = 10  # the template's


def started_within(shared: Shared, ids: list[str], sent_s: float) -> list[float]:
    """Seconds from the sending to each start, in order."""
    begin = shared.aws.clock.now() - timedelta(seconds=sent_s)
    return sorted((shared.started[each] - begin).total_seconds() for each in ids)


@pytest.mark.parametrize("noisy", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_another_tenants_backlog_delays_ten_jobs_by_less_than_a_slots_time(noisy: int) -> None:
    """Half of the stage's slots would run five at once, and the others a slot's time later."""
    shared = Shared(job_s=JOB_S)
    shared.submit("noisy", noisy)
    shared.go_on(JOB_S)
    ids = shared.submit("quiet", 10)
    shared.go_on(3 * JOB_S)

    waits = started_within(shared, ids, 3 * JOB_S)

    assert waits[4] < JOB_S
    assert waits[9] < 2 * JOB_S
    # No slot stays free for long: four rounds of ten, and what is under way.
    assert len(shared.started) >= 4 * SLOTS


def test_a_stage_with_one_tenant_is_as_fast_as_one_without_groups() -> None:
    counts = []
    for tenant in (None, "only"):
        shared = Shared(job_s=JOB_S)
        shared.submit(tenant, 60)
        shared.go_on(3 * JOB_S)
        counts.append((len(shared.started), shared.aws.gate.counts))
    assert counts[0] == counts[1]
