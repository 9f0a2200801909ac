import io
import json
import zipfile
from typing import Any

import pytest
from moto.awslambda.models import LambdaFunction

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


@pytest.fixture
def client(moto: Moto) -> Any:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("app.py", "")
    role = moto.client("iam").create_role(RoleName="any", AssumeRolePolicyDocument="{}")["Role"][
        "Arn"
    ]
    client = moto.client("lambda")
    client.create_function(
        FunctionName="f",
        Runtime="python3.13",
        Handler="app.f",
        Role=role,
        Code={"ZipFile": archive.getvalue()},
    )
    return client


def test_stock_moto_asks_docker(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        LambdaFunction,
        "_invoke_lambda",
        lambda _function, event: ("Docker's result", False, str(event)),
    )

    assert client.invoke(FunctionName="f", Payload=b"{}")["Payload"].read() == b"Docker's result"
