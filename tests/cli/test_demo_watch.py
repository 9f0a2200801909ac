"""What the demo knows of its jobs' attempts."""

from datetime import timedelta

import pytest

from examples.demo.run import Killed, recovery
from examples.demo.watch import DemoError, Watcher
from longhaul.core.verdict import OutcomeClass
from longhaul.pipelines.trees import Trees
from tests.cli.conftest import World
from tests.cli.page.scenes import started, works


@pytest.fixture
def watcher(world: World) -> Watcher:
    return Watcher(
        world.parts.leases,
        Trees(world.settings, world.parts.leases, world.parts.joins),
        world.clock,
        lambda _: None,
    )


def test_an_attempt_that_was_killed_between_two_looks_is_known(
    world: World, watcher: Watcher
) -> None:
    watcher.add("main#january")
    watcher.look()
    lease = works(world, started(world, world.claim("january")), 100)
    killed_at = world.clock.now()
    world.clock.advance(5)
    released = world.end(lease, OutcomeClass.OUT_OF_MEMORY, "killed")
    assert released.retry_at
    second = world.retry(released)
    world.clock.advance(3)
    world.end(works(world, started(world, second), 60), OutcomeClass.SUCCEEDED)

    watcher.look()
    watcher.look()  # into the tree of a job that has a row by now

    job = watcher.jobs["main#january"]
    assert [record.kind for record in job.attempts] == ["out_of_memory", "succeeded"]
    assert job.beats == lease.attempt.beats + job.attempts[1].attempt.beats > 1
    assert job.seconds == 105 + 63
    assert job.sizes == "small, then medium"
    took = recovery(Killed(job, killed_at.timestamp(), parts=0))
    back_off = released.retry_at - killed_at - timedelta(seconds=5)
    assert took.back_off_s == pytest.approx(back_off.total_seconds())
    assert (took.noticed_s, took.started_s) == (5, 3)


def test_a_job_that_did_not_come_back_fails_the_demo(world: World, watcher: Watcher) -> None:
    watcher.add("main#january")
    started(world, world.claim("january"))
    watcher.look()
    with pytest.raises(DemoError, match="not tried a second time"):
        recovery(Killed(watcher.jobs["main#january"], world.clock.now().timestamp(), parts=0))
