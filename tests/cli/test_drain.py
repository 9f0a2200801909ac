"""`longhaul stage`: drain and its way back, pause, slots, and the checks of `destroy`."""

import re
from typing import Any

import pytest
from botocore.exceptions import NoCredentialsError

from longhaul.cli import cdk
from longhaul.cli.checks.finding import Level
from longhaul.cli.checks.stack import slots
from longhaul.cli.target import Target
from longhaul.core.errors import NoFreeSlotError
from longhaul.core.lease import State
from longhaul.core.verdict import OutcomeClass
from tests.builders import QUEUE_URL
from tests.cli.conftest import World


@pytest.fixture
def stack(world: World) -> World:
    world.aws.ecs.create_cluster(clusterName="Longhaul")
    return world


def is_paused(world: World) -> bool:
    return world.parts.slots.use(world.settings.stages[0]).paused_at is not None


def running(world: World, job_id: str) -> Any:
    lease = world.claim(job_id)
    world.parts.executions.ensure_started(lease.id.execution_name, lease.execution_input)
    return lease


def closed(world: World, status: str) -> None:
    for each in world.aws.stepfunctions.executions.values():
        world.aws.stepfunctions.close(each, status)


def test_an_idle_stack_is_drained_until_that_is_undone(stack: World) -> None:
    done = stack.run("stage", "drain")
    assert is_paused(stack)
    assert "drained: nothing runs, and nothing starts" in done.stdout
    assert "table leases and bucket longhaul-data stay" in done.stdout
    stack.run("stage", "drain")  # a second time changes nothing
    assert is_paused(stack)
    stack.run("stage", "drain", "--undo")
    assert not is_paused(stack)


def test_a_running_job_is_waited_for(stack: World) -> None:
    lease = running(stack, "long")

    def end() -> None:
        assert is_paused(stack)
        stack.end(lease)
        closed(stack, "SUCCEEDED")

    stack.clock.meanwhile.append(end)
    stack.run("stage", "drain", says="waiting for 1 job, 1 execution\n")
    assert not stack.clock.meanwhile


def test_stop_ends_each_execution_once_and_its_job_waits_for_the_next_attempt(
    stack: World,
) -> None:
    lease = running(stack, "long")

    def sweep() -> None:
        (execution,) = stack.aws.stepfunctions.executions.values()
        assert (execution.status, execution.cause) == ("ABORTED", "longhaul stage drain --stop")
        stack.end(lease, OutcomeClass.INTERRUPTED)

    stack.clock.meanwhile.append(sweep)
    stack.run("stage", "drain", "--stop")
    assert stack.state("long") is State.RELEASED


def test_messages_that_wait_do_not_hold_the_drain_up_and_are_named(stack: World) -> None:
    stack.aws.sqs.send_message(QueueUrl=QUEUE_URL, MessageBody="{}")
    stack.aws.sqs.receive_message(QueueUrl=QUEUE_URL, VisibilityTimeout=3600)
    done = stack.run("stage", "drain")
    assert "1 messages and 0 dead letters of stage main would be deleted" in done.stdout


def test_an_interrupt_leaves_the_stages_paused_and_says_both_ways(stack: World) -> None:
    running(stack, "long")
    stack.interrupt()
    stack.run("stage", "drain", code=130, says="`longhaul stage drain` goes on, and with --undo it")
    assert is_paused(stack)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the CDK was run for."""
    ran: list[list[str]] = []
    monkeypatch.setattr(cdk, "run", lambda arguments: ran.append(arguments) or 0)
    return ran


def test_destroy_refuses_a_stack_that_works(stack: World, ran: list[list[str]]) -> None:
    running(stack, "long")
    stack.bury("dead")
    done = stack.run("destroy", code=1, says="2 to solve first; nothing was deleted\n")
    assert ran == []
    assert "a stage is not paused" in done.stdout
    assert "1 job, 1 execution still there" in done.stdout
    assert "1 dead letters of stage main would be deleted" in done.stdout


def test_destroy_goes_on_with_a_drained_stack(stack: World, ran: list[list[str]]) -> None:
    stack.run("stage", "drain")
    stack.run("destroy", "--force")
    assert ran == [["destroy", "--force"]]


@pytest.mark.usefixtures("no_project")
@pytest.mark.parametrize("command", ["bootstrap", "diff", "deploy", "destroy"])
def test_without_credentials_each_command_says_how_to_get_some_on_aws(
    bare: World, monkeypatch: pytest.MonkeyPatch, ran: list[list[str]], command: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NoCredentialsError

    monkeypatch.setattr(Target, "client", refuse)
    done = bare.run(command, code=4, says="Unable to locate credentials; set AWS_PROFILE")
    assert ran == []
    assert "longhaul up" not in done.stderr


@pytest.mark.usefixtures("no_project")
@pytest.mark.parametrize("command", ["bootstrap", "diff", "deploy", "destroy"])
def test_each_command_is_for_the_account_of_the_settings(
    bare: World, ran: list[list[str]], command: str
) -> None:
    other = ["-c", 'longhaul={"account": "210987654321"}']
    bare.run(command, *other, code=1, says="the settings say 210987654321")
    assert ran == []


# `longhaul stage pause`, `resume` and `slots`, and what shows them.


def test_a_paused_stage_starts_nothing_and_all_that_shows_a_stage_says_so(
    world: World, target: Target
) -> None:
    assert re.fullmatch(
        r"main: 0 of 1000 slots in use, paused since [-0-9]+ [:0-9]+Z\n",
        world.run("stage", "pause", "main").stdout,
    )
    with pytest.raises(NoFreeSlotError):
        world.claim("one")
    world.run("status", says="0 of 1000 slots in use, paused since")
    (finding,) = slots(target)
    assert (finding.level, "`longhaul stage resume main`" in finding.do) == (Level.PROBLEM, True)

    assert world.run("stage", "resume", "main").stdout == "main: 0 of 1000 slots in use\n"
    world.claim("one")
    (finding,) = slots(target)
    assert finding.level is Level.OK


def test_slots_hold_until_the_deployed_number_is_given(world: World, target: Target) -> None:
    assert (
        "0 of 3 slots in use (set by hand; deployed: 1000)"
        in world.run("stage", "slots", "main", "3").stdout
    )
    world.run("status", says="0 of 3 slots in use (set by hand; deployed: 1000)")
    (finding,) = slots(target)
    assert (finding.level, finding.do) == (
        Level.WARNING,
        "`longhaul stage slots main 1000` goes back to what is deployed",
    )
    assert world.run("stage", "slots", "main", "1000").stdout == "main: 0 of 1000 slots in use\n"


@pytest.mark.parametrize("count", ["0", "-1", "10001", "many"])
def test_impossible_numbers_and_unknown_stages_are_refused(world: World, count: str) -> None:
    world.run("stage", "slots", "main", count, code=2)
    world.run("stage", "slots", "nowhere", "3", code=2)
    world.run("stage", "pause", "nowhere", code=2)
