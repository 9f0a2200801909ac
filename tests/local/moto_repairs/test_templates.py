"""What the repairs make of the resources of a template, beside what stock moto makes of them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.awslambda.models import LambdaFunction
from moto.core.config import default_user_config

from longhaul.local.moto_repairs import cloudformation, ecs, emr, events, functions, glue, sfn
from longhaul.local.moto_repairs.patching import Patches
from tests.local.support import ROLE, Moto, function, mends

ROLE_ARN = "arn:aws:iam::123456789012:role/job"
UNKNOWN = {"Type": "AWS::Somewhere::Else", "Properties": {}}
MACHINE = {
    "Type": "AWS::StepFunctions::StateMachine",
    "Properties": {
        "StateMachineName": "machine",
        "RoleArn": ROLE_ARN,
        "DefinitionString": (
            '{"StartAt": "Pass", "States": '
            '{"Pass": {"Type": "Pass", "Result": "hello", "End": true}}}'
        ),
    },
}
SCHEDULE = {
    "Type": "AWS::Scheduler::Schedule",
    "Properties": {
        "Name": "nightly",
        "ScheduleExpression": "cron(30 2 * * ? *)",
        "ScheduleExpressionTimezone": "Europe/Berlin",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {
            "Arn": "arn:aws:sqs:us-east-1:123456789012:jobs",
            "RoleArn": "role",
            "Input": "{}",
        },
    },
}
DATABASE = {
    "Type": "AWS::Glue::Database",
    "Properties": {
        "CatalogId": {"Ref": "AWS::AccountId"},
        "DatabaseInput": {"Name": "lake", "LocationUri": "s3://data/tables/lake"},
    },
}
APPLICATION = {
    "Type": "AWS::EMRServerless::Application",
    "Properties": {"Name": "jobs", "ReleaseLabel": "emr-spark-8.0.0", "Type": "SPARK"},
}
DEFINITION = {
    "Type": "AWS::ECS::TaskDefinition",
    "Properties": {
        "Family": "small",
        "Cpu": "1024",
        "Memory": "4096",
        "TaskRoleArn": ROLE_ARN,
        "ContainerDefinitions": [{"Name": "job", "Image": "any"}],
    },
}
IMAGE = {
    "Type": "AWS::Lambda::Function",
    "Properties": {
        "FunctionName": "jobs",
        "PackageType": "Image",
        "Code": {"ImageUri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/jobs:1"},
        "ImageConfig": {"Command": ["jobs.handler"]},
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
    },
}


def policy(effect: str, action: str, **more: Any) -> dict[str, Any]:
    statement = {"Effect": effect, "Principal": "*", "Action": action, "Resource": "*", **more}
    return {"Version": "2012-10-17", "Statement": [statement]}


OF_QUEUE = policy("Deny", "sqs:SendMessage")
OF_BUCKET = policy(
    "Deny",
    "s3:*",
    Condition={"Bool": {"aws:SecureTransport": "false"}},  # over HTTP
)
POLICIES = {
    "One": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "jobs"}},
    "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "data"}},
    "OfQueue": {
        "Type": "AWS::SQS::QueuePolicy",
        "Properties": {"Queues": [{"Ref": "One"}], "PolicyDocument": OF_QUEUE},
    },
    "OfBucket": {
        "Type": "AWS::S3::BucketPolicy",
        "Properties": {"Bucket": {"Ref": "Bucket"}, "PolicyDocument": OF_BUCKET},
    },
}


def create(moto: Moto, resources: dict[str, Any], **outputs: str) -> dict[str, Any]:
    """The stack; an output refers to the resource that it names."""
    client = moto.client("cloudformation")
    refs = {name: {"Value": {"Ref": of}} for name, of in outputs.items()}
    template = json.dumps({"Resources": resources, "Outputs": refs})
    client.create_stack(StackName="tiny", TemplateBody=template)
    return dict(client.describe_stacks(StackName="tiny")["Stacks"][0])


# What the resource is that a template refers to.


def machine(moto: Moto, arn: str) -> object:
    client = moto.client("stepfunctions")
    is_there = arn in [
        each["stateMachineArn"] for each in client.list_state_machines()["stateMachines"]
    ]
    if is_there:
        client.start_execution(stateMachineArn=arn)
    return is_there


def schedule(moto: Moto, name: str) -> object:
    found = moto.client("scheduler").get_schedule(Name=name)
    return found["Name"], found["ScheduleExpressionTimezone"], found["Target"]["Input"]


def database(moto: Moto, name: str) -> object:
    found = moto.client("glue").get_database(Name=name)["Database"]
    return found["Name"], found["LocationUri"]


def application(moto: Moto, id_: str) -> object:
    found = moto.client("emr-serverless").get_application(applicationId=id_)["application"]
    return found["releaseLabel"]


def definition(moto: Moto, arn: str) -> object:
    found = moto.client("ecs").describe_task_definition(taskDefinition=arn)["taskDefinition"]
    return tuple(found.get(name) for name in ("memory", "cpu", "taskRoleArn"))


def image(moto: Moto, name: str) -> object:
    found = moto.client("lambda").get_function(FunctionName=name)["Configuration"]
    config = found.get("ImageConfigResponse", {}).get("ImageConfig", {})
    return found["PackageType"], config.get("Command")


def policies(moto: Moto, queue_url: str) -> object:
    sqs, s3 = moto.client("sqs"), moto.client("s3")
    queue = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["All"])["Attributes"]
    if "Policy" not in queue:
        return None
    return json.loads(queue["Policy"]), json.loads(s3.get_bucket_policy(Bucket="data")["Policy"])


NOT_MADE: list[object] = []


@pytest.mark.filterwarnings("ignore:Tried to parse")
@pytest.mark.parametrize(
    ("repair", "resources", "look", "stock", "mended"),
    [
        (sfn.templates, {"One": MACHINE}, machine, [False], [True]),
        (
            events.scheduler,
            {"One": SCHEDULE},
            schedule,
            NOT_MADE,
            [("nightly", "Europe/Berlin", "{}")],
        ),
        (
            glue.databases,
            {"One": DATABASE},
            database,
            NOT_MADE,
            [("lake", "s3://data/tables/lake")],
        ),
        (emr.applications, {"One": APPLICATION}, application, NOT_MADE, ["emr-spark-8.0.0"]),
        (
            ecs.definitions,
            {"One": DEFINITION},
            definition,
            [("4096", None, None)],
            [("4096", "1024", ROLE_ARN)],
        ),
        (
            functions.images,
            {"One": IMAGE, "Role": ROLE},
            image,
            [("Zip", None)],
            [("Image", ["jobs.handler"])],
        ),
        (cloudformation.policies, POLICIES, policies, [None], [(OF_QUEUE, OF_BUCKET)]),
    ],
)
def test_resources_of_a_template_are_made_as_aws_makes_them(
    moto: Moto,
    repair: Callable[[Patches], None],
    resources: dict[str, Any],
    look: Callable[[Moto, str], object],
    stock: object,
    mended: object,
    *,
    repaired: bool,
) -> None:
    # moto's own switch for its interpreter; no repair is about it.
    moto.patches.replace_item(default_user_config, "stepfunctions", {"execute_state_machine": True})
    if repaired:
        repair(moto.patches)
    outputs = create(moto, resources, Ref="One").get("Outputs", [])
    found = [look(moto, each["OutputValue"]) for each in outputs]
    assert found == (mended if repaired else stock)


@mends(cloudformation.unsupported)
@pytest.mark.filterwarnings("ignore:Tried to parse AWS")
def test_unknown_resource_fails_the_stack(moto: Moto, *, repaired: bool) -> None:
    if repaired:
        with pytest.raises(ClientError, match="AWS::Somewhere::Else is not made by the embedded"):
            create(moto, {"Unknown": UNKNOWN})
    else:
        assert create(moto, {"Unknown": UNKNOWN})["StackStatus"] == "CREATE_COMPLETE"


def test_resource_that_would_do_nothing_is_skipped(moto: Moto) -> None:
    cloudformation.unsupported(moto.patches)
    alarm = {"Type": "AWS::CloudWatch::Alarm", "Properties": {}}
    assert create(moto, {"Alarm": alarm})["StackStatus"] == "CREATE_COMPLETE"


@mends(cloudformation.policies)
def test_a_buckets_policy_that_denies_requests_without_tls_denies_no_others(
    moto: Moto, *, repaired: bool
) -> None:
    s3 = moto.client("s3")
    s3.create_bucket(Bucket="data")
    s3.put_bucket_policy(Bucket="data", Policy=json.dumps(OF_BUCKET))
    if not repaired:
        with pytest.raises(ClientError, match="403"):
            s3.put_object(Bucket="data", Key="k", Body=b"1")
        return
    s3.put_object(Bucket="data", Key="k", Body=b"1")
    assert s3.get_object(Bucket="data", Key="k")["Body"].read() == b"1"


def test_stock_moto_asks_docker(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> None:
    inline = function("f", FunctionName="f", Code={"ZipFile": "def f(event, context): ..."})
    create(moto, {"Role": ROLE, "F": inline})
    monkeypatch.setattr(
        LambdaFunction,
        "_invoke_lambda",
        lambda _function, event: ("Docker's result", False, str(event)),
    )
    answer = moto.client("lambda").invoke(FunctionName="f", Payload=b"{}")
    assert answer["Payload"].read() == b"Docker's result"
