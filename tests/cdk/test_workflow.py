import json
from typing import Any

import pytest
from statelint.config import Config
from statelint.linter import Linter
from statelint.problem import ProblemType

from simulation.aws.stepfunctions.asl.loading import load
from tests.cdk.synthesis import Synthesis

KILLS = ["JobStalled", "JobCancelled", "LeaseLost"]
SETTLE_RETRY = {
    "ErrorEquals": ["States.ALL"],
    "IntervalSeconds": 2,
    "BackoffRate": 2,
    "MaxAttempts": 8,
    "MaxDelaySeconds": 60,
    "JitterStrategy": "FULL",
}


@pytest.fixture
def states(usual: Synthesis) -> dict[str, Any]:
    found: dict[str, Any] = usual.definition["States"]
    return found


@pytest.fixture
def job(states: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = states["RunUnderLease"]["Branches"][0]["States"]
    return found


@pytest.fixture
def lease(states: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = states["RunUnderLease"]["Branches"][1]["States"]
    return found


def test_statelint_finds_nothing(usual: Synthesis) -> None:
    # FLOAT: it wants `2.0` as a BackoffRate, because of Ruby; AWS takes `2`.
    assert (
        Linter.validate(usual.definition, Config(ignored_problem_types=[ProblemType.FLOAT])) == []
    )


def test_the_simulation_interprets_every_field_of_the_definition(
    usual: Synthesis, varied: Synthesis
) -> None:
    for synthesis in (usual, varied):
        definition = json.dumps(synthesis.definition).replace("<AWS::Partition>", "aws")
        assert load(definition).resources == {
            "arn:aws:states:::lambda:invoke",
            "arn:aws:states:::ecs:runTask.sync",
        }


def test_the_machine_is_standard_traced_and_logs_failures_without_payloads(
    usual: Synthesis,
) -> None:
    machine = usual.only("AWS::StepFunctions::StateMachine")

    assert machine.get("StateMachineType", "STANDARD") == "STANDARD"
    assert machine["StateMachineName"] == "Longhaul"
    assert machine["TracingConfiguration"] == {"Enabled": True}
    assert machine["LoggingConfiguration"]["Level"] == "ERROR"
    assert machine["LoggingConfiguration"]["IncludeExecutionData"] is False


def test_the_machines_log_group_needs_no_room_in_the_accounts_logs_policy(
    usual: Synthesis, varied: Synthesis
) -> None:
    # Step Functions adds any other log group to the account's resource policy, which holds 5,120
    # characters; where it is full, CreateStateMachine fails.
    for synthesis in (usual, varied):
        group = synthesis.resources("AWS::Logs::LogGroup")["WorkflowLogs"]
        assert group["LogGroupName"] == f"/aws/vendedlogs/states/{synthesis.stack_name}"


def test_step_functions_waits_for_the_end_of_the_jobs_task(job: dict[str, Any]) -> None:
    run = job["RunOnFargate"]

    assert run["Resource"].endswith(":states:::ecs:runTask.sync")
    assert run["Parameters"]["TaskDefinition.$"] == "States.Format('Longhaul-{}', $.size)"
    assert run["Parameters"]["CapacityProviderStrategy"] == [
        {"CapacityProvider.$": "$.capacity", "Weight": 1}
    ]
    assert run["Parameters"]["PropagateTags"] == "TASK_DEFINITION"
    assert run["Parameters"]["Tags"] == [
        {"Key": "longhaul:stack", "Value": "Longhaul"},
        {"Key": "longhaul:stage", "Value.$": "$.stage"},
        {"Key": "longhaul:job", "Value.$": "$.job_tag"},
        {"Key": "longhaul:label", "Value.$": "$.label_tag"},
    ]
    assert "LaunchType" not in run["Parameters"]  # ECS takes one or the other
    assert run["Parameters"]["Cluster"] == "<SparkCluster.Arn>"
    assert run["Parameters"]["Overrides"] == {
        "TaskRoleArn.$": "$.rights.task_role",
        "ContainerOverrides": [
            {
                "Name": "job",
                "Environment": [
                    {"Name": "LONGHAUL_KEY", "Value.$": "$.key"},
                    {"Name": "LONGHAUL_RUN", "Value.$": "$.run"},
                    {"Name": "LONGHAUL_ATTEMPT", "Value.$": "$.attempt"},
                    {"Name": "LONGHAUL_JOB", "Value.$": "$.job"},
                ],
            }
        ],
    }


def test_the_job_is_settled_however_it_ends_and_the_machine_never_retries_it(
    job: dict[str, Any],
) -> None:
    run = job["RunOnFargate"]

    assert run["TimeoutSecondsPath"] == "$.timeout_s"
    assert run["ResultPath"] == "$.task"
    assert "Retry" not in run
    assert run["Catch"] == [
        {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Settle"}
    ]
    assert run["Next"] == "Settle"


@pytest.mark.parametrize("name", ["Settle", "SettleKilled"])
def test_settle_is_retried_for_minutes_in_both_places(
    states: dict[str, Any], job: dict[str, Any], name: str
) -> None:
    settle = {**job, **states}[name]

    assert settle["Parameters"] == {"FunctionName": "<Settle.Arn>", "Payload.$": "$"}
    assert settle["ResultSelector"] == {"outcome.$": "$.Payload.outcome"}
    assert settle["Retry"] == [SETTLE_RETRY]
    # A Catch would hide a settle that failed; without it the sweeper takes over.
    assert "Catch" not in settle


def test_a_task_state_waits_longer_than_its_functions_timeout(
    usual: Synthesis, job: dict[str, Any], lease: dict[str, Any]
) -> None:
    functions = usual.resources("AWS::Lambda::Function")

    assert job["Settle"]["TimeoutSeconds"] > functions["Settle"]["Timeout"]
    assert lease["Beat"]["TimeoutSeconds"] > functions["Heartbeat"]["Timeout"]


def test_a_beat_that_fails_is_retried_soon_and_then_seldom(
    lease: dict[str, Any],
) -> None:
    beat = lease["Beat"]

    assert beat["Retry"] == [
        {
            "ErrorEquals": ["States.ALL"],
            "IntervalSeconds": 1,
            "BackoffRate": 2,
            "MaxAttempts": 50,
            "MaxDelaySeconds": 300,
            "JitterStrategy": "FULL",
        }
    ]
    assert beat["Catch"] == [
        {"ErrorEquals": ["States.ALL"], "ResultPath": "$.beat", "Next": "SkipBeat"}
    ]
    assert lease["SkipBeat"] == {"Type": "Wait", "Seconds": 300, "Next": "Beat"}


def test_the_heartbeat_decides_when_the_next_beat_is(lease: dict[str, Any]) -> None:
    assert lease["FirstWait"] == {"Type": "Wait", "SecondsPath": "$.first_wait_s", "Next": "Beat"}
    assert lease["Wait"] == {"Type": "Wait", "SecondsPath": "$.beat.wait_s", "Next": "Beat"}
    assert lease["Beat"]["ResultPath"] == "$.beat"
    assert set(lease["Beat"]["ResultSelector"]) == {"next.$", "wait_s.$", "cause.$"}


def test_the_result_of_a_beat_decides_the_next_state_and_an_unknown_one_skips(
    lease: dict[str, Any],
) -> None:
    after = lease["AfterBeat"]

    assert {choice["StringEquals"]: choice["Next"] for choice in after["Choices"]} == {
        "wait": "Wait",
        "end": "Settled",
        **{kill: kill for kill in KILLS},
    }
    assert after["Default"] == "SkipBeat"


@pytest.mark.parametrize("kill", KILLS)
def test_a_kill_fails_the_branch_with_its_name_and_cause(lease: dict[str, Any], kill: str) -> None:
    assert lease[kill] == {"Type": "Fail", "Error": kill, "CausePath": "$.beat.cause"}


def test_only_kills_are_settled_outside_the_branches(states: dict[str, Any]) -> None:
    assert states["RunUnderLease"]["Catch"] == [
        {"ErrorEquals": KILLS, "ResultPath": "$.error", "Next": "SettleKilled"}
    ]


def test_the_execution_ends_with_the_outcome_of_the_job(states: dict[str, Any]) -> None:
    assert states["RunUnderLease"]["ResultSelector"] == {"outcome.$": "$[0]"}
    outcome = states["Outcome"]
    ends = {choice["StringEquals"]: states[choice["Next"]] for choice in outcome["Choices"]}

    assert {name: (end["Type"], end.get("Error")) for name, end in ends.items()} == {
        "SUCCEEDED": ("Succeed", None),
        "CANCELLED": ("Succeed", None),
        "SUPERSEDED": ("Succeed", None),
        "RELEASED": ("Fail", "RELEASED"),
        "DEAD": ("Fail", "DEAD"),
    }
    assert states[outcome["Default"]]["Type"] == "Fail"


def test_seven_days_of_beats_fit_the_history(usual: Synthesis) -> None:
    # A beat is 9 events: Wait 2, Task 5, Choice 2. Step Functions ends an execution at 25,000.
    beats = 604_800 // 300
    assert usual.definition["StartAt"] == "RunUnderLease"
    assert beats * 9 < 25_000
