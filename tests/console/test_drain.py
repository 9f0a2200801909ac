"""`longhaul drain`, its way back, and the checks of `make destroy`, against the strict fakes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from console import teardown
from console.checks.finding import Level
from console.checks.stack import mappings
from console.target import Target
from longhaul.domain.lease import Owed, State
from longhaul.domain.verdict import OutcomeClass
from tests.builders import QUEUE_URL
from tests.console.conftest import World


@pytest.fixture
def stack(world: World) -> World:
    world.aws.ecs.create_cluster(clusterName="Longhaul")
    return world


def meanwhile(world: World, *acts: Callable[[], Any]) -> None:
    """At the first sleeps, one after the other; the mappings reach their state at the first."""
    world.clock.meanwhile.extend([world.aws.lambda_.turn, *acts])


def mapping(world: World) -> str:
    return str(world.aws.lambda_.mappings[0]["State"])


def running(world: World, job_id: str) -> Any:
    lease = world.claim(job_id)
    world.parts.executions.ensure_started(lease.id.execution_name, lease.execution_input)
    return lease


def closed(world: World, status: str) -> None:
    for each in world.aws.stepfunctions.executions.values():
        world.aws.stepfunctions.close(each, status)


def test_an_idle_stack_is_drained_and_a_second_time_changes_nothing(stack: World) -> None:
    meanwhile(stack)
    done = stack.run("drain")
    assert (done.exit_code, mapping(stack)) == (0, "Disabled")
    assert "drained: nothing runs, and nothing starts" in done.stdout
    again = stack.run("drain")
    assert (again.exit_code, mapping(stack)) == (0, "Disabled")


def test_what_stays_is_named_with_its_cost(stack: World) -> None:
    stack.end(stack.claim("old"))
    stack.aws.s3.put_object(Bucket="longhaul-data", Key="clean/x", Body=b"x" * 2048)
    meanwhile(stack)
    said = stack.run("drain").stdout
    assert "table leases: " in said
    assert "USD a month (0.25 a GB)" in said
    assert "bucket longhaul-data: " in said
    assert "USD a month (0.023 a GB)" in said


def test_a_running_job_is_waited_for(stack: World) -> None:
    lease = running(stack, "long")

    def end() -> None:
        assert mapping(stack) == "Disabled"
        stack.end(lease)
        closed(stack, "SUCCEEDED")

    meanwhile(stack, lambda: None, end)
    done = stack.run("drain")
    assert done.exit_code == 0
    assert "waiting for 1 job, 1 execution, 0 tasks" in done.stderr
    assert not stack.clock.meanwhile


def test_stop_ends_each_execution_once_and_its_job_waits_for_the_next_attempt(
    stack: World,
) -> None:
    lease = running(stack, "long")

    def sweep() -> None:
        (execution,) = stack.aws.stepfunctions.executions.values()
        assert (execution.status, execution.cause) == ("ABORTED", "longhaul drain --stop")
        stack.end(lease, OutcomeClass.INTERRUPTED)

    meanwhile(stack, lambda: None, sweep)
    assert stack.run("drain", "--stop").exit_code == 0
    assert stack.state("long") is State.RELEASED


def test_a_deletion_that_is_owed_does_not_hold_the_drain_up(stack: World) -> None:
    """Its message is received only once the mapping is on again."""
    lease = stack.claim("handed-over")
    now = stack.clock.now()
    ended = replace(
        lease, state=State.SUCCEEDED, owed=(Owed.DELETE,), settled_attempt=1, settled_at=now
    )
    stack.parts.leases.settle(lease, ended)
    meanwhile(stack)
    assert stack.run("drain").exit_code == 0


def test_a_dispatcher_that_holds_a_message_is_waited_for(stack: World) -> None:
    stack.aws.sqs.send_message(QueueUrl=QUEUE_URL, MessageBody="{}")
    stack.aws.sqs.receive_message(QueueUrl=QUEUE_URL, VisibilityTimeout=3600)
    begun = stack.clock.now()
    meanwhile(stack)
    done = stack.run("drain")
    assert "waiting for dispatchers that hold a message" in done.stderr
    assert 75 <= (stack.clock.now() - begun).total_seconds() < 90
    assert "1 messages and 0 dead letters of stage main would be deleted" in done.stdout


def test_an_interrupt_leaves_the_mappings_off_and_says_both_ways(stack: World) -> None:
    running(stack, "long")

    def interrupt() -> None:
        raise KeyboardInterrupt

    meanwhile(stack, interrupt)
    done = stack.run("drain")
    assert (done.exit_code, mapping(stack)) == (130, "Disabled")
    assert "`longhaul drain` goes on, `longhaul drain --undo`" in done.stderr


def test_undo_switches_the_mappings_on_again(stack: World) -> None:
    meanwhile(stack)
    assert stack.run("drain").exit_code == 0
    meanwhile(stack)
    done = stack.run("drain", "--undo")
    assert (done.exit_code, mapping(stack)) == (0, "Enabled")


def test_undo_waits_for_a_mapping_that_still_turns(stack: World) -> None:
    stack.aws.lambda_.mappings[0]["State"] = "Disabling"
    meanwhile(stack, stack.aws.lambda_.turn)
    assert stack.run("drain", "--undo").exit_code == 0
    assert mapping(stack) == "Enabled"


def test_doctor_names_a_drained_stack(stack: World, target: Target) -> None:
    stack.aws.lambda_.mappings[0]["State"] = "Disabled"
    (finding,) = mappings(target)
    assert (finding.level, "the stack is drained" in finding.what) == (Level.PROBLEM, True)
    assert "`longhaul drain --undo` switches them on" in finding.do


def test_destroy_refuses_a_stack_that_works(
    stack: World, capsys: pytest.CaptureFixture[str]
) -> None:
    running(stack, "long")
    stack.bury("dead")
    assert teardown.main([]) == 1
    said = capsys.readouterr().out
    assert "a mapping is on" in said
    assert "1 job, 1 execution, 0 tasks still there" in said
    assert "1 dead letters of stage main would be deleted" in said
    assert said.endswith("2 to solve first; nothing was deleted\n")


def test_destroy_goes_on_with_a_drained_stack_and_says_what_stays(
    stack: World, capsys: pytest.CaptureFixture[str]
) -> None:
    stack.aws.lambda_.mappings[0]["State"] = "Disabled"
    assert teardown.main([]) == 0
    said = capsys.readouterr().out
    assert "can be deleted; what stays, and what it costs:" in said
    assert "table leases: " in said


def test_destroy_without_a_stack_says_so(bare: World, capsys: pytest.CaptureFixture[str]) -> None:
    del bare
    assert teardown.main([]) == 1
    assert "no stack Longhaul" in capsys.readouterr().out
