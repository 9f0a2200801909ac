"""The counter of a stage equals the number of its RUNNING rows, whatever crashed on the way, and comes back to zero."""

from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longhaul.domain.lease import Lease, State
from tests.fakes.clock import VirtualClock
from tests.handlers.conftest import deployed
from tests.handlers.life import Kill, Life

JOBS = ("one", "two", "three")  # for two slots
END_CASES = (
    "exit-0",
    "exit-1",
    "exit-65-permanent",
    "stalled",
    "spot-interruption",
    "run-task-throttled",
    "lease-lost",
)


def running(life: Life, job_id: str) -> Lease | None:
    return next((row for row in life.rows() if row.job_id == job_id and row.state is State.RUNNING), None)


def send(life: Life, job_id: str) -> None:
    life.send(job_id, max_attempts=2)


def commit(life: Life, job_id: str) -> None:
    row = running(life, job_id)
    if row and not row.task_arn:
        life.start_work(row)
        life.commit(row)


def beat(life: Life, job_id: str) -> None:
    if row := running(life, job_id):
        life.beat(row)


def stop(life: Life, job_id: str) -> None:
    """By hand; the event of it is lost."""
    if row := running(life, job_id):
        life.close(row, "ABORTED")


def pass_time(life: Life, _: str) -> None:
    life.stack.aws.clock.advance(130)


def deliver(life: Life, _: str) -> None:
    if records := life.receive():
        life.dispatch(records)


def sweep(life: Life, _: str) -> None:
    life.sweep()


def cancel(life: Life, job_id: str) -> None:
    life.cancel(job_id)


def settle(case: str) -> Callable[[Life, str], None]:
    def settled(life: Life, job_id: str) -> None:
        if row := running(life, job_id):
            life.settle(row, case)

    settled.__name__ = case
    return settled


ACTS = [send, deliver, deliver, commit, beat, stop, pass_time, pass_time, sweep, cancel, *map(settle, END_CASES)]
STEPS = st.tuples(st.sampled_from(ACTS), st.sampled_from(JOBS), st.integers(1, 12), st.booleans())


def taken(life: Life) -> int:
    return sum(row.state is State.RUNNING for row in life.rows())


@given(st.lists(STEPS, min_size=5, max_size=40))
@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_counter_is_the_number_of_running_rows_after_any_crashes(
    output: Path, steps: list[tuple[Callable[[Life, str], None], str, int, bool]]
) -> None:
    with deployed(clock=VirtualClock(), slots=2) as stack:
        life = Life(stack, output)
        for act, job_id, call, after in steps:
            # Often beyond the act's last call: then nobody dies.
            with Kill(stack.aws.gate, call, after=after):
                act(life, job_id)
            assert life.slots_taken() == taken(life) <= life.stage.slots
        come_to_rest(life)
        assert life.slots_taken() == 0
        assert all(row.is_finished or row.is_mark for row in life.rows())


def come_to_rest(life: Life) -> None:
    """Nobody dies any more: what runs is worked off, what was left behind is found."""
    for _ in range(30):
        life.stack.aws.clock.advance(600)
        life.deliver()
        for row in life.rows():
            if row.state is State.RUNNING and not row.cancel_requested_at:
                commit(life, row.job_id)
                life.settle(row, "exit-0")
            elif row.state is State.RUNNING:
                life.settle(row, "cancelled")
        life.sweep()
        if all(row.is_finished or row.is_mark for row in life.rows()) and life.stack.messages() == (0, 0):
            return
