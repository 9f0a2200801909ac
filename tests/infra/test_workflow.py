import json
from typing import Any

import pytest
from statelint.config import Config
from statelint.linter import Linter
from statelint.problem import ProblemType

from tests.infra.synthesis import Synthesis
from tests.simulation.asl.loading import load

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
    # Its complaint about `2` instead of `2.0` as a BackoffRate is about Ruby.
    assert Linter.validate(usual.definition, Config(ignored_problem_types=[ProblemType.FLOAT])) == []


def test_the_simulation_interprets_every_field_of_it(usual: Synthesis, varied: Synthesis) -> None:
    for synthesis in (usual, varied):
        definition = json.dumps(synthesis.definition).replace("<AWS::Partition>", "aws")
        assert load(definition).resources == {"arn:aws:states:::lambda:invoke", "arn:aws:states:::ecs:runTask.sync"}


def test_the_machine_is_standard_traced_and_logs_failures_without_payloads(usual: Synthesis) -> None:
    machine = usual.only("AWS::StepFunctions::StateMachine")

    assert machine.get("StateMachineType", "STANDARD") == "STANDARD"
    assert machine["StateMachineName"] == "Longhaul"
    assert machine["TracingConfiguration"] == {"Enabled": True}
    assert machine["LoggingConfiguration"]["Level"] == "ERROR"
    assert machine["LoggingConfiguration"]["IncludeExecutionData"] is False


def test_the_job_runs_as_a_task_whose_end_step_functions_waits_for(job: dict[str, Any]) -> None:
    run = job["RunOnFargate"]

    assert run["Resource"].endswith(":states:::ecs:runTask.sync")
    assert run["Parameters"]["TaskDefinition.$"] == "States.Format('Longhaul-{}', $.size)"
    assert run["Parameters"]["CapacityProviderStrategy"] == [{"CapacityProvider.$": "$.capacity", "Weight": 1}]
    assert "LaunchType" not in run["Parameters"]  # ECS takes one or the other
    assert run["Parameters"]["Cluster"] == "<SparkCluster.Arn>"
    assert run["Parameters"]["Overrides"] == {
        "ContainerOverrides": [
            {
                "Name": "job",
                "Environment": [
                    {"Name": "LONGHAUL_KEY", "Value.$": "$.key"},
                    {"Name": "LONGHAUL_RUN", "Value.$": "$.run"},
                    {"Name": "LONGHAUL_ATTEMPT", "Value.$": "$.attempt"},
                ],
            }
        ]
    }


def test_the_job_is_settled_however_it_ended_and_never_retried_by_the_machine(job: dict[str, Any]) -> None:
    run = job["RunOnFargate"]

    assert run["TimeoutSecondsPath"] == "$.timeout_s"
    assert run["ResultPath"] == "$.task"
    assert "Retry" not in run
    assert run["Catch"] == [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Settle"}]
    assert run["Next"] == "Settle"


@pytest.mark.parametrize("name", ["Settle", "SettleKilled"])
def test_settle_is_tried_for_minutes_in_both_places(states: dict[str, Any], job: dict[str, Any], name: str) -> None:
    settle = {**job, **states}[name]

    assert settle["Parameters"] == {"FunctionName": "<Settle.Arn>", "Payload.$": "$"}
    assert settle["ResultSelector"] == {"outcome.$": "$.Payload.outcome"}
    assert settle["Retry"] == [SETTLE_RETRY]
    # A Catch would turn a settle that failed into one that did not; the sweeper takes over instead.
    assert "Catch" not in settle


def test_a_task_state_outlasts_its_function(usual: Synthesis, job: dict[str, Any], lease: dict[str, Any]) -> None:
    functions = usual.resources("AWS::Lambda::Function")

    assert job["Settle"]["TimeoutSeconds"] > functions["Settle"]["Timeout"]
    assert lease["Beat"]["TimeoutSeconds"] > functions["Heartbeat"]["Timeout"]


def test_a_beat_that_fails_is_retried_briefly_and_then_skipped(lease: dict[str, Any]) -> None:
    beat = lease["Beat"]

    assert beat["Retry"] == [
        {
            "ErrorEquals": ["States.ALL"],
            "IntervalSeconds": 1,
            "BackoffRate": 2,
            "MaxAttempts": 3,
            "MaxDelaySeconds": 10,
            "JitterStrategy": "FULL",
        }
    ]
    assert beat["Catch"] == [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.beat", "Next": "SkipBeat"}]
    assert lease["SkipBeat"] == {"Type": "Wait", "Seconds": 15, "Next": "Beat"}


def test_the_heartbeat_says_when_it_wants_to_be_called_next(lease: dict[str, Any]) -> None:
    assert lease["FirstWait"] == {"Type": "Wait", "SecondsPath": "$.first_wait_s", "Next": "Beat"}
    assert lease["Wait"] == {"Type": "Wait", "SecondsPath": "$.beat.wait_s", "Next": "Beat"}
    assert lease["Beat"]["ResultPath"] == "$.beat"
    assert set(lease["Beat"]["ResultSelector"]) == {"next.$", "wait_s.$", "cause.$"}


def test_a_beat_leads_where_its_answer_says_and_an_unknown_answer_is_a_skipped_beat(lease: dict[str, Any]) -> None:
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


def test_only_kills_are_settled_from_outside_the_branches(states: dict[str, Any]) -> None:
    assert states["RunUnderLease"]["Catch"] == [{"ErrorEquals": KILLS, "ResultPath": "$.error", "Next": "SettleKilled"}]


def test_the_execution_ends_as_the_job_did(states: dict[str, Any]) -> None:
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
    # Wait 2 + Task 5 + Choice 2 events a beat; 25,000 events end an execution.
    beats = 604_800 // 300
    assert usual.definition["StartAt"] == "RunUnderLease"
    assert beats * 9 < 25_000
