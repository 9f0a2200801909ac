import json

from simulation.aws.stepfunctions.asl.loading import load
from tests.cdk.synthesis import Synthesis


def test_the_simulation_interprets_every_field_of_the_definition(
    usual: Synthesis, varied: Synthesis
) -> None:
    for synthesis in (usual, varied):
        definition = json.dumps(synthesis.definition).replace("<AWS::Partition>", "aws")
        assert load(definition).resources == {
            "arn:aws:states:::lambda:invoke",
            "arn:aws:states:::ecs:runTask.sync",
        }


def test_the_machines_log_group_needs_no_room_in_the_accounts_logs_policy(
    usual: Synthesis, varied: Synthesis
) -> None:
    # Step Functions adds any other log group to the account's resource policy, which holds 5,120
    # characters; where it is full, CreateStateMachine fails.
    for synthesis in (usual, varied):
        group = synthesis.resources("AWS::Logs::LogGroup")["WorkflowLogs"]
        assert group["LogGroupName"] == f"/aws/vendedlogs/states/{synthesis.stack_name}"


def test_a_task_state_waits_longer_than_its_functions_timeout(
    usual: Synthesis,
) -> None:
    branches = usual.definition["States"]["RunUnderLease"]["Branches"]
    job, lease = (each["States"] for each in branches)
    functions = usual.resources("AWS::Lambda::Function")

    assert job["Settle"]["TimeoutSeconds"] > functions["Settle"]["Timeout"]
    assert lease["Beat"]["TimeoutSeconds"] > functions["Heartbeat"]["Timeout"]
