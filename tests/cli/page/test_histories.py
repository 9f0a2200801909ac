"""Attempts are read only when they change, and always equal a fresh read."""

from longhaul.cli.page.histories import Histories
from longhaul.domain import transitions
from longhaul.domain.lease import CommittedOutput, State
from longhaul.domain.outcome import reopened
from longhaul.domain.settlement import after_verdict
from longhaul.domain.verdict import OutcomeClass, Verdict
from tests.builders import stage
from tests.cli.conftest import World
from tests.cli.page.scenes import started, succeeded


def test_the_history_equals_the_table_at_every_step_of_a_job(world: World) -> None:
    histories, leases = Histories(world.parts.leases), world.parts.leases

    def check() -> None:
        row = leases.load("main#job")
        assert row is not None
        assert histories.of([row]) == leases.history([row])

    lease = world.claim("job")
    check()
    started(world, lease)
    check()
    released = world.end(lease, OutcomeClass.OUT_OF_MEMORY, "heap")
    check()
    second = started(world, world.retry(released))
    check()
    leases.report(transitions.beat(second, world.clock.now(), world.clock.now()))
    check()
    world.end(second, OutcomeClass.PERMANENT, "no")
    check()


def test_a_voided_commit_changes_the_remembered_attempt(world: World) -> None:
    lease, leases = started(world, world.claim("job")), world.parts.leases
    committed = leases.report(
        transitions.commit(lease.id, CommittedOutput(1, 1, 1, prefix="s3://longhaul-data/clean/"))
    )
    numbers, rng = world.settings.lease, world.parts.rng
    row = after_verdict(
        committed, Verdict(OutcomeClass.SUCCEEDED, ""), stage(), numbers, world.clock.now(), rng
    ).lease
    leases.apply(transitions.settle(committed, row))
    histories = Histories(leases)
    assert histories.of([row])[row.key][0].state is State.SUCCEEDED
    void = leases.apply(transitions.reopen(row, reopened(row, numbers, world.clock.now(), rng)))
    assert histories.of([void])[row.key][0].state is State.RELEASED
    assert histories.of([void]) == leases.history([void])


def test_jobs_that_are_no_longer_shown_are_forgotten(world: World) -> None:
    one, two = succeeded(world, "one", 5), succeeded(world, "two", 5)
    histories = Histories(world.parts.leases)
    histories.of([one, two])
    world.aws.gate.counts.clear()
    histories.of([two])
    assert not world.aws.gate.counts
    histories.of([one, two])
    assert world.aws.gate.counts["dynamodb.BatchGetItem"] == 1


def test_a_cancel_mark_has_no_attempts(world: World) -> None:
    mark = world.parts.leases.request_cancel("main#queued", "main")
    assert Histories(world.parts.leases).of([mark]) == {}
