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
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from infra.spark_runtime import CONTAINER

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


def definition(
    *,
    run_task: Mapping[str, object],
    task_families: str,
    heartbeat_arn: str,
    heartbeat_timeout_s: int,
    settle_arn: str,
    settle_timeout_s: int,
    skip_wait_s: int,
    partition: str,
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
    return {
        "Comment": "One attempt at one job, under its lease",
        "StartAt": "RunUnderLease",
        "States": {
            "RunUnderLease": {
                "Type": "Parallel",
                "Branches": [_job_branch(run_task, task_families, partition, settle), _lease_branch(beat, skip_wait_s)],
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
