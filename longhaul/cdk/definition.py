"""The state machine as data: one execution is one attempt at one job.

    RunUnderLease (Parallel)
      the job, with the rights of its stage; Settle runs as soon as it ends, however it ends:
      Rights ► MainRights ► RunOnFargate ──► Settle
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

If the stack has other engines than Fargate, the job's branch has a choice between them
(`longhaul.engines`). Imports no CDK.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from longhaul.config.stages import pascal
from longhaul.engines.states import JobStates, StateJson, when

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
# good beats, so that days of failed beats cost less than good ones
# (`longhaul.config.rules`). The job works on meanwhile, and its message comes again and is
# adopted.
BEAT_RETRY: Final = {
    "ErrorEquals": ["States.ALL"],
    "IntervalSeconds": 1,
    "BackoffRate": 2,
    "MaxAttempts": 50,
    "JitterStrategy": "FULL",
}
# Added to a function's own timeout: time to send the invocation and return its result.
INVOKE_MARGIN_S: Final = 30


def definition(
    *,
    engines: Sequence[JobStates],
    heartbeat_arn: str,
    heartbeat_timeout_s: int,
    settle_arn: str,
    settle_timeout_s: int,
    beat_ceiling_s: int,
    partition: str,
) -> StateJson:
    """The definition in Amazon States Language (JSONPath).

    Args:
        engines: The states of each engine that the stack has; the first is the default.
        heartbeat_arn: The heartbeat function.
        heartbeat_timeout_s: Its timeout in seconds.
        settle_arn: The settle function.
        settle_timeout_s: Its timeout in seconds.
        beat_ceiling_s: The longest wait between two beats, in seconds, also when beats fail.
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
        "Retry": [{**BEAT_RETRY, "MaxDelaySeconds": beat_ceiling_s}],
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
                "Branches": [_job_branch(engines, settle), _lease_branch(beat, beat_ceiling_s)],
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
                    *when(
                        "$.outcome",
                        {"SUCCEEDED": "Done", "CANCELLED": "Done", "SUPERSEDED": "Done"},
                    ),
                    *when("$.outcome", {"RELEASED": "Released", "DEAD": "Dead"}),
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


def _job_branch(engines: Sequence[JobStates], settle: StateJson) -> StateJson:
    default, *others = engines
    states = {name: state for each in (*others, default) for name, state in each.states.items()}
    start = default.start
    if others:
        start = "Engine"
        chosen = when("$.engine", {each.engine: each.start for each in others})
        engine = {"Type": "Choice", "Choices": chosen, "Default": default.start}
        states = {"Engine": engine} | states
    rights = {
        stage: {name: arn for each in engines for name, arn in each.rights[stage].items()}
        for stage in default.rights
    }
    states = rights_states(rights, start) | states
    return {
        "StartAt": "Rights",
        "States": states | {"Settle": {**settle, "OutputPath": "$.outcome"}},
    }


def rights_states(rights: Mapping[str, Mapping[str, str]], following: str) -> dict[str, StateJson]:
    """The states that say whose rights the job gets: by the stage of the execution's input.

    Decided here and not by the dispatcher: roles and machine are one deployment, every version of
    the input has the stage, and nothing that a message says can be a role.

    Args:
        rights: by stage, what engines find at `$.rights`.
        following: the state after them.
    """
    return {
        # JSONPath has no map lookup: each stage is a Pass state that adds what is its own.
        "Rights": {
            "Type": "Choice",
            "Choices": when("$.stage", {stage: _rights_of(stage) for stage in rights}),
            "Default": "UnknownStage",
        },
        "UnknownStage": {
            "Type": "Fail",
            "Error": "UnknownStage",
            "Cause": (
                "The job was claimed in a stage that this execution's definition does not know."
            ),
        },
        **{
            _rights_of(stage): {
                "Type": "Pass",
                "Result": dict(rights[stage]),
                "ResultPath": "$.rights",
                "Next": following,
            }
            for stage in rights
        },
    }


def _rights_of(stage: str) -> str:
    return f"{pascal(stage)}Rights"


def _lease_branch(beat: StateJson, beat_ceiling_s: int) -> StateJson:
    return {
        "StartAt": "FirstWait",
        "States": {
            "FirstWait": {"Type": "Wait", "SecondsPath": "$.first_wait_s", "Next": "Beat"},
            "Beat": beat,
            "SkipBeat": {"Type": "Wait", "Seconds": beat_ceiling_s, "Next": "Beat"},
            "AfterBeat": {
                "Type": "Choice",
                "Choices": when(
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
