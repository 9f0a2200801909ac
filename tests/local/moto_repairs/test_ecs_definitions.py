import json

from longhaul.local.moto_repairs import ecs as ecs_repairs
from tests.local.support import Moto

TEMPLATE = {
    "Resources": {
        "Small": {
            "Type": "AWS::ECS::TaskDefinition",
            "Properties": {
                "Family": "small",
                "Cpu": "1024",
                "Memory": "4096",
                "TaskRoleArn": "arn:aws:iam::123456789012:role/job",
                "ContainerDefinitions": [{"Name": "job", "Image": "any"}],
            },
        }
    }
}


def test_task_definition_of_a_stack_keeps_its_cpu_and_its_role(
    moto: Moto, *, repaired: bool
) -> None:
    if repaired:
        ecs_repairs.definitions(moto.patches)
    moto.client("cloudformation").create_stack(StackName="tiny", TemplateBody=json.dumps(TEMPLATE))
    definition = moto.client("ecs").describe_task_definition(taskDefinition="small")[
        "taskDefinition"
    ]
    assert definition["memory"] == "4096"
    assert definition.get("cpu") == ("1024" if repaired else None)
    role = "arn:aws:iam::123456789012:role/job"
    assert definition.get("taskRoleArn") == (role if repaired else None)
