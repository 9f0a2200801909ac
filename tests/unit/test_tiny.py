"""The size `tiny`: which jobs get it, where they run, and how their attempts follow each other."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import botocore.session
import pytest

from longhaul.core.claim import new_run
from longhaul.core.engine import TINY_TIMEOUT_S
from longhaul.core.lease import AttemptId, Lease
from longhaul.core.request import read_request
from longhaul.core.settings import LeaseSettings, RuntimeSettings, TaskSettings, TaskSize
from longhaul.core.settlement import classify as classify_evidence
from longhaul.core.settlement import with_task
from longhaul.core.verdict import Evidence, OutcomeClass
from longhaul.engines.aws_lambda.ends import (
    LAMBDA,
    MAX_RUN_S,
    MIB_PER_VCPU,
    classify,
    ended,
    reference,
)
from longhaul.engines.aws_lambda.tasks import Invocations
from longhaul.engines.listed import ENGINES
from longhaul.engines.tasks import AllTasks
from simulation.aws.clock import VirtualClock
from tests.builders import NOW, body, changed, message, problems_of, settings, stage

TINY = TaskSize(cpu=1741, memory_mib=3008, disk_gib=8)
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:Longhaul-tiny"
UNTIL = datetime(2026, 1, 2, 3, 19, 5, 250_000, UTC)


def claimed(**asked: Any) -> Lease:
    sent = message(request=read_request(body(**asked)))
    return new_run(None, sent, stage(), LeaseSettings(), NOW)


def with_tiny(**changes: Any) -> RuntimeSettings:
    return settings(tasks=TaskSettings(sizes={"tiny": TINY}), **changes)


@pytest.mark.parametrize(
    ("asked", "claimed_as"),
    [
        ({"size": "tiny", "timeout": "10m"}, ("lambda", "tiny", 600)),
        # Nobody asked for the stage's six hours.
        ({"size": "tiny"}, ("lambda", "tiny", TINY_TIMEOUT_S)),
        (
            {"size": "tiny", "timeout": f"{TINY_TIMEOUT_S}s"},
            ("lambda", "tiny", TINY_TIMEOUT_S),
        ),
        ({"size": "tiny", "timeout": "15m"}, ("fargate", "small", 900)),
        ({}, ("fargate", "small", 21_600)),
    ],
)
def test_a_tiny_job_runs_on_lambda_unless_it_asks_for_longer_than_lambda_allows(
    asked: dict[str, str], claimed_as: tuple[str, str, int]
) -> None:
    execution = claimed(**asked).input
    assert (execution.engine, execution.size, execution.timeout_s) == claimed_as


def test_a_stack_without_the_size_and_the_other_engine_refuse_it() -> None:
    assert problems_of(with_tiny(), size="tiny") == []
    assert problems_of(settings(stages=(stage(size="tiny"),))) == problems_of(
        settings(), size="tiny"
    )
    assert problems_of(settings(), size="tiny") == [
        "size: this stack has no tiny: its settings have no sizes.tiny"
    ]
    on_emr = problems_of(with_tiny(), size="tiny", engine="emr-serverless")
    assert on_emr[0] == (
        "size: tiny is a Lambda function; on emr-serverless the smallest size is small"
    )


def test_an_invocation_is_gone_when_lambda_has_surely_ended_it_and_not_before() -> None:
    gone_by = UNTIL + timedelta(minutes=2)  # the clock that said UNTIL was behind
    clock = VirtualClock(gone_by - timedelta(milliseconds=1))
    tasks = AllTasks({LAMBDA.name: Invocations(clock.now)})
    name = reference(FUNCTION, "5d4a9c5e", UNTIL)

    before = tasks.stop(name, AttemptId("main#a", 1, 1), "x")
    clock.advance(0.001)
    after = tasks.stop(name, AttemptId("main#a", 1, 1), "x")

    assert (before.is_gone, before.gone_by) == (False, gone_by)
    assert after.is_gone
    assert list(tasks.running()) == []


def test_lambdas_limits_are_those_of_its_documentation() -> None:
    assert (MIB_PER_VCPU, MAX_RUN_S) == (1_769, 900)
    assert TINY_TIMEOUT_S == MAX_RUN_S - 60


def refusals() -> list[str]:
    """The errors that Lambda's API has for an invocation that does not begin."""
    invoke = botocore.session.get_session().get_service_model("lambda").operation_model("Invoke")
    return sorted({shape.name for shape in invoke.error_shapes} - {"EFSIOException"})


# They end by themselves: a limit, or a service that still sets something up or is out of order.
PASSING = {
    "CodeArtifactUserPendingException",
    "EC2ThrottledException",
    "EC2UnexpectedException",
    "ENILimitReachedException",
    "ENINotReadyException",
    "ResourceConflictException",
    "ResourceNotReadyException",
    "ServiceException",
    "ServiceQuotaExceededException",
    "SnapStartNotReadyException",
    "SubnetIPAddressLimitReachedException",
    "TooManyRequestsException",
}


@pytest.mark.parametrize("name", refusals())
def test_an_invocation_that_lambda_refuses_was_not_placed(name: str) -> None:
    verdict = classify_evidence(claimed(size="tiny"), Evidence(f"Lambda.{name}", "no"), ENGINES)

    kind = OutcomeClass.NOT_PLACED if name in PASSING else OutcomeClass.REFUSED
    assert verdict.kind is kind
    assert f"Lambda.{name}: no" in verdict.detail


@pytest.mark.parametrize(
    ("error", "message", "kind"),
    [
        ("JobEnded", "exit code 137", OutcomeClass.OUT_OF_MEMORY),
        ("JobEnded", "exit code 1", OutcomeClass.FAILED),
        # Lambda's words, and not those of our function.
        ("Runtime.ExitError", "exit code 1", OutcomeClass.INTERRUPTED),
        ("Runtime.ExitError", "Error: signal: killed", OutcomeClass.OUT_OF_MEMORY),
        ("Runtime.OutOfMemory", "", OutcomeClass.OUT_OF_MEMORY),
        ("Sandbox.Timedout", None, OutcomeClass.INTERRUPTED),
    ],
)
def test_the_end_of_an_invocation_is_its_jobs_or_lambdas(
    error: str, message: str | None, kind: OutcomeClass
) -> None:
    verdict = classify(claimed(size="tiny"), {"errorType": error, "errorMessage": message})

    assert verdict.kind is kind
    assert verdict.detail == f"{error}: {message or ''}"


def failed_as(message: str, kind: str = "JobEnded") -> Evidence:
    return Evidence(kind, json.dumps({"errorMessage": message, "errorType": kind}))


ENDS = reference(FUNCTION, "request-1", UNTIL)


@pytest.mark.parametrize(
    ("registered", "said", "is_over"),
    [
        (ENDS, failed_as(ended("exit code 1", ENDS)), True),
        (ENDS, failed_as(ended("the runner did not end in time, and was killed", ENDS)), True),
        # Lambda ran the event twice, and the other run has ended.
        (reference(FUNCTION, "request-1", NOW), failed_as(ended("exit code 1", ENDS)), False),
        (ENDS, failed_as("exit code 1"), False),  # it does not say which
        (ENDS, failed_as(ended("exit code 1", ENDS), "Sandbox.Timedout"), False),
        (ENDS, Evidence("States.Timeout"), False),
        (None, failed_as(ended("exit code 1", ENDS)), False),
        ("arn:aws:ecs:us-east-1:1:task/t", failed_as(ended("exit code 1", ENDS)), False),
    ],
)
def test_an_invocation_is_over_when_it_says_so_itself(
    registered: str | None, said: Evidence, *, is_over: bool
) -> None:
    row = changed(claimed(size="tiny"), task_arn=registered)
    assert with_task(row, said, ENGINES).attempt.is_over is is_over
