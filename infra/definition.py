"""The state machine as data: one execution is one attempt at one job.

    RunUnderLease (Parallel)
      RunOnFargate ──────────────────► Settle             the job; whatever ends it, Settle is told, at once
      FirstWait ► Beat ► AfterBeat ─┬─► Wait ► Beat       the lease; ends by itself at the beat after the job settled
                                    ├─► Settled
                                    └─► JobStalled | JobCancelled | LeaseLost   fails the branch, and so stops the task
      Catch of those three ► SettleKilled
    Outcome ► Done | Released | Dead

The heartbeat *returns* a kill instead of raising it: a kill is a decision and not a Lambda error, so no retrier can swallow it and the function's
Errors metric keeps its meaning. Executions live for days: a deploy changes this for new executions only.

Where the stack has the engine emr-serverless as well, the job's branch begins with a choice (`_job_on_emr`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.spark_runtime import CONTAINER
from longhaul.domain.request import MAX_TIMEOUT_S
from longhaul.settings import SizeName

State = dict[str, Any]

# What a beat may answer to end the job. Each is a Fail state of that name, and the Parallel's Catch lists exactly these.
KILLS: Final = ("JobStalled", "JobCancelled", "LeaseLost")

# Settle must get through: until it did, the message is neither deleted nor released. About five minutes of tries; after that the sweeper takes over.
SETTLE_RETRY: Final = {
    "ErrorEquals": ["States.ALL"],
    "IntervalSeconds": 2,
    "BackoffRate": 2,
    "MaxAttempts": 8,
    "MaxDelaySeconds": 60,
    "JitterStrategy": "FULL",
}
# A beat must be soon or not at all: part of the lease is already used up, and the next beat does the same work.
BEAT_RETRY: Final = {
    "ErrorEquals": ["States.ALL"],
    "IntervalSeconds": 1,
    "BackoffRate": 2,
    "MaxAttempts": 3,
    "MaxDelaySeconds": 10,
    "JitterStrategy": "FULL",
}
# On top of a function's own timeout: the invocation's way there and back.
INVOKE_MARGIN_S: Final = 30
# Without one EMR ends a job run after 12 hours. Longer than any job may take: for the day when nobody else ends it.
JOB_RUN_TIMEOUT_MINUTES: Final = MAX_TIMEOUT_S // 60 + 60


@dataclass(frozen=True)
class EmrJobRun:
    """What emr-serverless:StartJobRun is told: `run` as it stands; `spark` is the beginning of SparkSubmitParameters, `workers` by size what follows."""

    run: Mapping[str, object]
    spark: str
    workers: Mapping[SizeName, str]


def definition(  # noqa: PLR0913 - what the states of the machine name
    *,
    run_task: Mapping[str, object],
    task_families: str,
    heartbeat_arn: str,
    heartbeat_timeout_s: int,
    settle_arn: str,
    settle_timeout_s: int,
    skip_wait_s: int,
    partition: str,
    emr_job_run: EmrJobRun | None = None,
) -> State:
    """The definition in Amazon States Language (JSONPath).

    Args:
        run_task: Where the task runs: `Cluster` and `NetworkConfiguration` of ecs:RunTask.
        task_families: The prefix of the task definitions' families; the input's `size` follows it.
        heartbeat_arn: The heartbeat function.
        heartbeat_timeout_s: Its timeout in seconds.
        settle_arn: The settle function.
        settle_timeout_s: Its timeout in seconds.
        skip_wait_s: Seconds until the next beat after one that failed in spite of its retries.
        partition: The AWS partition of the service integrations' ARNs.
        emr_job_run: None: the stack has no such engine.
    """
    invoke = f"arn:{partition}:states:::lambda:invoke"
    settle = {
        "Type": "Task",
        "Resource": invoke,
        "Parameters": {"FunctionName": settle_arn, "Payload.$": "$"},
        "ResultSelector": {"outcome.$": "$.Payload.outcome"},
        "TimeoutSeconds": settle_timeout_s + INVOKE_MARGIN_S,
        "Retry": [SETTLE_RETRY],
        "End": True,
    }
    beat = {
        "Type": "Task",
        "Resource": invoke,
        "Parameters": {"FunctionName": heartbeat_arn, "Payload.$": "$"},
        "ResultSelector": {
            "next.$": "$.Payload.next",
            "wait_s.$": "$.Payload.wait_s",
            "cause.$": "$.Payload.cause",
        },
        "ResultPath": "$.beat",
        "TimeoutSeconds": heartbeat_timeout_s + INVOKE_MARGIN_S,
        "Retry": [BEAT_RETRY],
        # A beat that fails never kills a healthy job.
        "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.beat", "Next": "SkipBeat"}],
        "Next": "AfterBeat",
    }
    job = _job_branch(run_task, task_families, partition, settle)
    if emr_job_run is not None:
        job = {"StartAt": "Engine", "States": _job_on_emr(emr_job_run, partition) | job["States"]}
    return {
        "Comment": "One attempt at one job, under its lease",
        "StartAt": "RunUnderLease",
        "States": {
            "RunUnderLease": {
                "Type": "Parallel",
                "Branches": [job, _lease_branch(beat, skip_wait_s)],
                # The job branch's output is the outcome itself; of the lease branch's nothing is wanted.
                "ResultSelector": {"outcome.$": "$[0]"},
                # No States.ALL here: what else can fail a branch is trouble of ours, and the sweeper settles that from outside, where it can look.
                "Catch": [{"ErrorEquals": list(KILLS), "ResultPath": "$.error", "Next": "SettleKilled"}],
                "Next": "Outcome",
            },
            "SettleKilled": {key: value for key, value in settle.items() if key != "End"} | {"Next": "Outcome"},
            "Outcome": {
                "Type": "Choice",
                "Choices": [
                    *_when("$.outcome", {"SUCCEEDED": "Done", "CANCELLED": "Done", "SUPERSEDED": "Done"}),
                    *_when("$.outcome", {"RELEASED": "Released", "DEAD": "Dead"}),
                ],
                "Default": "UnknownOutcome",
            },
            "Done": {"Type": "Succeed"},
            "Released": {"Type": "Fail", "Error": "RELEASED", "Cause": "The attempt failed; the job is tried again."},
            "Dead": {
                "Type": "Fail",
                "Error": "DEAD",
                "Cause": "The job cannot succeed; it is in the dead-letter queue.",
            },
            "UnknownOutcome": {
                "Type": "Fail",
                "Error": "UnknownOutcome",
                "Cause": "Settle answered with an outcome that this execution's definition does not know.",
            },
        },
    }


def _job_branch(run_task: Mapping[str, object], task_families: str, partition: str, settle: State) -> State:
    return {
        "StartAt": "RunOnFargate",
        "States": {
            "RunOnFargate": {
                "Type": "Task",
                "Resource": f"arn:{partition}:states:::ecs:runTask.sync",
                "Parameters": {
                    **run_task,
                    # On demand or Spot, as the attempt's claim said.
                    "CapacityProviderStrategy": [{"CapacityProvider.$": "$.capacity", "Weight": 1}],
                    # The family, never a revision: an execution would go on naming one that a deploy has made inactive.
                    "TaskDefinition.$": f"States.Format('{task_families}-{{}}', $.size)",
                    "Overrides": {
                        "ContainerOverrides": [
                            {
                                "Name": CONTAINER,
                                "Environment": [
                                    {"Name": "LONGHAUL_KEY", "Value.$": "$.key"},
                                    {"Name": "LONGHAUL_RUN", "Value.$": "$.run"},
                                    {"Name": "LONGHAUL_ATTEMPT", "Value.$": "$.attempt"},
                                ],
                            }
                        ]
                    },
                },
                "TimeoutSecondsPath": "$.timeout_s",
                "ResultPath": "$.task",
                # No Retry here: every failure is classified, counted and released by Settle; a second mechanism would start tasks that nobody counts.
                "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Settle"}],
                "Next": "Settle",
            },
            "Settle": {**settle, "OutputPath": "$.outcome"},
        },
    }


def _job_on_emr(emr: EmrJobRun, partition: str) -> State:
    """Engine ─┬─► RunOnFargate, as ever; or Workers ─► one Pass for each size ─► RunOnEmrServerless ─► Settle."""
    run = dict(emr.run)
    spark = (
        f"{emr.spark} {{}} --conf spark.emr-serverless.driverEnv.LONGHAUL_KEY={{}}"
        " --conf spark.emr-serverless.driverEnv.LONGHAUL_RUN={} --conf spark.emr-serverless.driverEnv.LONGHAUL_ATTEMPT={}"
    )
    return {
        "Engine": {
            "Type": "Choice",
            "Choices": _when("$.engine", {"emr-serverless": "Workers"}),
            "Default": "RunOnFargate",
        },
        # JSONPath cannot look a size up in a table: each has a state of its own, which only lays its words beside the input.
        "Workers": {
            "Type": "Choice",
            "Choices": _when("$.size", {size: _workers(size) for size in emr.workers}),
            "Default": "UnknownSize",
        },
        "UnknownSize": {
            "Type": "Fail",
            "Error": "UnknownSize",
            "Cause": "The job was claimed with a size that this execution's definition does not know.",
        },
        **{
            _workers(size): {
                "Type": "Pass",
                "Result": words,
                "ResultPath": "$.workers",
                "Next": "RunOnEmrServerless",
            }
            for size, words in emr.workers.items()
        },
        "RunOnEmrServerless": {
            "Type": "Task",
            "Resource": f"arn:{partition}:states:::emr-serverless:startJobRun.sync",
            "Parameters": {
                "ApplicationId": run["ApplicationId"],
                "ExecutionRoleArn": run["ExecutionRoleArn"],
                # One attempt is one execution is one job run, however often StartJobRun is called.
                "ClientToken.$": "$$.Execution.Name",
                # As `longhaul.domain.job_run` reads it: the driver is not told its id.
                "Name.$": "States.Format('{} {} {}', $.key, $.run, $.attempt)",
                "ExecutionTimeoutMinutes": JOB_RUN_TIMEOUT_MINUTES,
                "JobDriver": {
                    "SparkSubmit": {
                        "EntryPoint": run["EntryPoint"],
                        "EntryPointArguments": run["EntryPointArguments"],
                        "SparkSubmitParameters.$": f"States.Format('{spark}', $.workers, $.key, $.run, $.attempt)",
                    }
                },
            },
            "TimeoutSecondsPath": "$.timeout_s",
            "ResultPath": "$.task",
            # No Retry, as for Fargate.
            "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Settle"}],
            "Next": "Settle",
        },
    }


def _workers(size: str) -> str:
    return f"{size.capitalize()}Workers"


def _lease_branch(beat: State, skip_wait_s: int) -> State:
    return {
        "StartAt": "FirstWait",
        "States": {
            "FirstWait": {"Type": "Wait", "SecondsPath": "$.first_wait_s", "Next": "Beat"},
            "Beat": beat,
            "SkipBeat": {"Type": "Wait", "Seconds": skip_wait_s, "Next": "Beat"},
            "AfterBeat": {
                "Type": "Choice",
                "Choices": _when("$.beat.next", {"wait": "Wait", "end": "Settled", **{kill: kill for kill in KILLS}}),
                # An answer that this execution's definition does not know, from a newer heartbeat: as a beat that failed.
                "Default": "SkipBeat",
            },
            "Wait": {"Type": "Wait", "SecondsPath": "$.beat.wait_s", "Next": "Beat"},
            "Settled": {"Type": "Succeed"},
            **{kill: {"Type": "Fail", "Error": kill, "CausePath": "$.beat.cause"} for kill in KILLS},
        },
    }


def _when(variable: str, targets: Mapping[str, str]) -> Sequence[State]:
    return [{"Variable": variable, "StringEquals": value, "Next": target} for value, target in targets.items()]
