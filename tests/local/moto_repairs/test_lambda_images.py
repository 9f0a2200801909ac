import json

from longhaul.local.moto_repairs import functions as functions_repairs
from tests.local.support import Moto

TEMPLATE = {
    "Resources": {
        "Role": {
            "Type": "AWS::IAM::Role",
            "Properties": {"AssumeRolePolicyDocument": {"Statement": []}},
        },
        "Jobs": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "FunctionName": "jobs",
                "PackageType": "Image",
                "Code": {"ImageUri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/jobs:1"},
                "ImageConfig": {"Command": ["jobs.handler"]},
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            },
        },
    }
}


def test_function_of_a_stack_is_an_image_with_a_command(moto: Moto, *, repaired: bool) -> None:
    if repaired:
        functions_repairs.images(moto.patches)
    moto.client("cloudformation").create_stack(StackName="tiny", TemplateBody=json.dumps(TEMPLATE))
    jobs = moto.client("lambda").list_functions()["Functions"][0]
    assert jobs["PackageType"] == ("Image" if repaired else "Zip")
    command = jobs.get("ImageConfigResponse", {}).get("ImageConfig", {}).get("Command")
    assert command == (["jobs.handler"] if repaired else None)
