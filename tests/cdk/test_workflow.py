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


def test_a_task_state_waits_longer_than_its_functions_timeout(
    usual: Synthesis,
) -> None:
    branches = usual.definition["States"]["RunUnderLease"]["Branches"]
    job, lease = (each["States"] for each in branches)
    functions = usual.resources("AWS::Lambda::Function")

    assert job["Settle"]["TimeoutSeconds"] > functions["Settle"]["Timeout"]
    assert lease["Beat"]["TimeoutSeconds"] > functions["Heartbeat"]["Timeout"]
