"""`longhaul stage drain` and its way back, on the embedded AWS with a runner without Spark."""

import pytest

from longhaul.core.lease import State
from tests.e2e.conftest import Stack

pytestmark = pytest.mark.slow  # waits for a drained stack to come to rest


def test_a_drained_stack_runs_nothing_starts_nothing_and_goes_on_when_it_is_awake_again(
    sparkless: Stack,
) -> None:
    stack = sparkless
    stack.send(stack.plan("stopped-by-drain", "hangs", "ok"))
    stack.until_task("stopped-by-drain")
    code, out, err = stack.longhaul("stage", "drain", "--stop")
    said = out + err
    assert code == 0, said
    row = stack.row("stopped-by-drain")
    assert row is not None
    assert (row.state, row.failures, row.interruptions) == (State.RELEASED, 0, 1)
    assert stack.process_group_of("stopped-by-drain") is None
    assert "queues: 1 messages" in said

    stack.send(stack.plan("sent-to-a-drained-stack", "ok"))
    # Repeated, it finds nothing to do; and what waits stays where it is.
    assert stack.longhaul("stage", "drain")[0] == 0
    assert stack.row("sent-to-a-drained-stack") is None
    assert stack.longhaul("check")[0] == 1

    assert stack.longhaul("stage", "drain", "--undo")[0] == 0
    assert stack.until("sent-to-a-drained-stack", State.SUCCEEDED).attempt.number == 1
    assert stack.until("stopped-by-drain", State.SUCCEEDED).attempt.number == 2
    stack.until_quiet()
    code, out, err = stack.longhaul("check")
    assert code == 0, out + err
