"""The state machine as data: one execution is one attempt at one job.

    RunUnderLease (Parallel)
      the job; Settle runs as soon as it ends, however it ends:
      RunOnFargate ──────────────────► Settle
      the lease; ends at the first beat after the job settled:
      FirstWait ► Beat ► AfterBeat ─┬─► Wait ► Beat
                                    ├─► Settled
                                    └─► JobStalled | JobCancelled | LeaseLost
                                        fails the branch, and so stops the task
      Catch of those three ► SettleKilled
    Outcome ► Done | Released | Dead

The heartbeat *returns* a kill instead of raising it: a kill is a decision and no Lambda error, so
no retrier can swallow it and the function's Errors metric counts errors only. Executions live for
days: a deploy changes this definition for new executions only.

If the stack has the engine emr-serverless, the job's branch begins with a choice (`_job_on_emr`).
Imports no CDK.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from longhaul.domain.request import MAX_TIMEOUT_S
from longhaul.settings import SizeName

StateJson = dict[str, Any]

CONTAINER: Final = "job"
"""The container of the task definitions that runs the job."""

# With these a beat ends the job. Each is a Fail state of that name, and the Parallel's Catch lists
# exactly these.
KILLS: Final = ("JobStalled", "JobCancelled", "LeaseLost")

# Until settle succeeds, the message is neither deleted nor released. These retries take about five
# minutes; after that the sweeper takes over.
SETTLE_RETRY: Final = {
    "ErrorEquals": ["States.ALL"],
    "IntervalSeconds": 2,
    "BackoffRate": 2,
    "MaxAttempts": 8,
    "MaxDelaySeconds": 60,
    "JitterStrategy": "FULL",
}
# Soon at first, because part of the lease is used up, then seldom: each try writes 3 events into
# the history, which ends the execution at 25,000. The pauses grow to the longest wait between two
# good beats, so that days of failed beats cost less than good ones (`infra.history`). The job works
# on meanwhile, and its message comes again and is adopted.
BEAT_RETRY: Final = {
    "ErrorEquals": ["States.ALL"],
    "IntervalSeconds": 1,
    "BackoffRate": 2,
    "MaxAttempts": 50,
    "JitterStrategy": "FULL",
}
# Added to a function's own timeout: time to send the invocation and return its result.
INVOKE_MARGIN_S: Final = 30
# Longer than any job may take: a last resort if nothing else ends the job run. EMR's default is 12
# hours.
JOB_RUN_TIMEOUT_MINUTES: Final = MAX_TIMEOUT_S // 60 + 60


@dataclass(frozen=True, kw_only=True)
class EmrJobRun:
    """The parameters of emr-serverless:StartJobRun that do not depend on the job."""

    run: Mapping[str, object]
    # SparkSubmitParameters of every job, and those of the driver and the executors by size.
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
    beat_ceiling_s: int,
    partition: str,
    emr_job_run: EmrJobRun | None = None,
) -> StateJson:
    """The definition in Amazon States Language (JSONPath).

    Args:
        run_task: Where the task runs: `Cluster` and `NetworkConfiguration` of ecs:RunTask.
        task_families: The prefix of the task definitions' families; the input's `size` follows it.
        heartbeat_arn: The heartbeat function.
        heartbeat_timeout_s: Its timeout in seconds.
        settle_arn: The settle function.
        settle_timeout_s: Its timeout in seconds.
        beat_ceiling_s: The longest wait between two beats, in seconds, also when beats fail.
        partition: The AWS partition of the service integrations' ARNs.
        emr_job_run: None if the stack does not have the engine emr-serverless.
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
        "Retry": [{**BEAT_RETRY, "MaxDelaySeconds": beat_ceiling_s}],
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
                "Branches": [job, _lease_branch(beat, beat_ceiling_s)],
                # The job branch's output is the outcome; the lease branch's is not used.
                "ResultSelector": {"outcome.$": "$[0]"},
                # No States.ALL here: any other failure is a fault of ours. The sweeper settles it
                # from outside, where it can look at the task.
                "Catch": [
                    {"ErrorEquals": list(KILLS), "ResultPath": "$.error", "Next": "SettleKilled"}
                ],
                "Next": "Outcome",
            },
            "SettleKilled": {key: value for key, value in settle.items() if key != "End"}
            | {"Next": "Outcome"},
            "Outcome": {
                "Type": "Choice",
                "Choices": [
                    *_when(
                        "$.outcome",
                        {"SUCCEEDED": "Done", "CANCELLED": "Done", "SUPERSEDED": "Done"},
                    ),
                    *_when("$.outcome", {"RELEASED": "Released", "DEAD": "Dead"}),
                ],
                "Default": "UnknownOutcome",
            },
            "Done": {"Type": "Succeed"},
            "Released": {
                "Type": "Fail",
                "Error": "RELEASED",
                "Cause": "The attempt failed; the job is tried again.",
            },
            "Dead": {
                "Type": "Fail",
                "Error": "DEAD",
                "Cause": "The job cannot succeed; it is in the dead-letter queue.",
            },
            "UnknownOutcome": {
                "Type": "Fail",
                "Error": "UnknownOutcome",
                "Cause": (
                    "Settle answered with an outcome that "
                    "this execution's definition does not know."
                ),
            },
        },
    }


def _job_branch(
    run_task: Mapping[str, object], task_families: str, partition: str, settle: StateJson
) -> StateJson:
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
                    # The family, never a revision: a deploy would make it inactive while executions
                    # still name it.
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
                # No Retry here: Settle classifies, counts and releases every failure. A retry would
                # start tasks that are not counted.
                "Catch": [
                    {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Settle"}
                ],
                "Next": "Settle",
            },
            "Settle": {**settle, "OutputPath": "$.outcome"},
        },
    }


def _job_on_emr(emr: EmrJobRun, partition: str) -> StateJson:
    """The states before Settle.

    Engine ─┬─► RunOnFargate
            └─► Workers ─► one Pass for each size ─► RunOnEmrServerless
    """
    run = dict(emr.run)
    spark = (
        f"{emr.spark} {{}}"
        " --conf spark.emr-serverless.driverEnv.LONGHAUL_KEY={}"
        " --conf spark.emr-serverless.driverEnv.LONGHAUL_RUN={}"
        " --conf spark.emr-serverless.driverEnv.LONGHAUL_ATTEMPT={}"
    )
    return {
        "Engine": {
            "Type": "Choice",
            "Choices": _when("$.engine", {"emr-serverless": "Workers"}),
            "Default": "RunOnFargate",
        },
        # JSONPath has no map lookup: each size is a Pass state that adds its Spark parameters.
        "Workers": {
            "Type": "Choice",
            "Choices": _when("$.size", {size: _workers(size) for size in emr.workers}),
            "Default": "UnknownSize",
        },
        "UnknownSize": {
            "Type": "Fail",
            "Error": "UnknownSize",
            "Cause": (
                "The job was claimed with a size that this execution's definition does not know."
            ),
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
                # One attempt has one execution and one job run, even if StartJobRun is repeated.
                "ClientToken.$": "$$.Execution.Name",
                # The form that `longhaul.domain.job_run` reads: the driver does not know its id.
                "Name.$": "States.Format('{} {} {}', $.key, $.run, $.attempt)",
                "ExecutionTimeoutMinutes": JOB_RUN_TIMEOUT_MINUTES,
                "JobDriver": {
                    "SparkSubmit": {
                        "EntryPoint": run["EntryPoint"],
                        "EntryPointArguments": run["EntryPointArguments"],
                        "SparkSubmitParameters.$": (
                            f"States.Format('{spark}', $.workers, $.key, $.run, $.attempt)"
                        ),
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


def _lease_branch(beat: StateJson, beat_ceiling_s: int) -> StateJson:
    return {
        "StartAt": "FirstWait",
        "States": {
            "FirstWait": {"Type": "Wait", "SecondsPath": "$.first_wait_s", "Next": "Beat"},
            "Beat": beat,
            "SkipBeat": {"Type": "Wait", "Seconds": beat_ceiling_s, "Next": "Beat"},
            "AfterBeat": {
                "Type": "Choice",
                "Choices": _when(
                    "$.beat.next",
                    {"wait": "Wait", "end": "Settled", **{kill: kill for kill in KILLS}},
                ),
                # A result from a newer heartbeat that this execution's definition does not know. It
                # may come for days: seldom, so that the history has room.
                "Default": "SkipBeat",
            },
            "Wait": {"Type": "Wait", "SecondsPath": "$.beat.wait_s", "Next": "Beat"},
            "Settled": {"Type": "Succeed"},
            **{
                kill: {"Type": "Fail", "Error": kill, "CausePath": "$.beat.cause"} for kill in KILLS
            },
        },
    }


def _when(variable: str, targets: Mapping[str, str]) -> Sequence[StateJson]:
    return [
        {"Variable": variable, "StringEquals": value, "Next": target}
        for value, target in targets.items()
    ]
