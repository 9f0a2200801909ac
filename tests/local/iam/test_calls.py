"""Which actions, resources and condition keys a call is."""

from typing import Any

import botocore.session
import pytest

from longhaul.local.iam.calls import FREE, OTHER_NAMES, Call, Known, Reference, UnknownCallError
from longhaul.local.iam.judge import Access, Judge
from tests.local.support import ACCOUNT, REGION

HERE = f"{REGION}:{ACCOUNT}"
TABLE = f"arn:aws:dynamodb:{HERE}:table/leases"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/job"
KNOWN = Known(
    hash_key=lambda _, index: "owner" if index else "key",
    task_definition=lambda name: (f"arn:aws:ecs:{HERE}:task-definition/{name}:3", (ROLE,)),
)


@pytest.fixture
def reference(judge: Judge) -> Reference:
    return Reference(judge.data)


def call(service: str, operation: str, headers: dict[str, str], **parameters: Any) -> Call:
    return Call(service, operation, parameters, headers, REGION, ACCOUNT)


def accesses(
    reference: Reference, service: str, operation: str, **parameters: Any
) -> list[tuple[str, str]]:
    found = reference.accesses(call(service, operation, {}, **parameters), KNOWN)
    return [(each.action, each.resource) for each in found]


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "expected"),
    [
        (
            "s3",
            "HeadObject",
            {"Bucket": "b", "Key": "a/c"},
            [("s3:GetObject", "arn:aws:s3:::b/a/c")],
        ),
        (
            "scheduler",
            "GetSchedule",
            {"Name": "Longhaul-main"},
            [("scheduler:GetSchedule", f"arn:aws:scheduler:{HERE}:schedule/default/Longhaul-main")],
        ),
        (
            "scheduler",
            "GetSchedule",
            {"Name": "n", "GroupName": "own"},
            [("scheduler:GetSchedule", f"arn:aws:scheduler:{HERE}:schedule/own/n")],
        ),
        (
            "s3",
            "GetObject",
            {"Bucket": "b", "Key": "k", "versionId": "1"},
            [("s3:GetObjectVersion", "arn:aws:s3:::b/k")],
        ),
        (
            "secretsmanager",
            "GetSecretValue",
            {"SecretId": f"arn:aws:secretsmanager:{HERE}:secret:shop/db-AbCd12"},
            [
                (
                    "secretsmanager:GetSecretValue",
                    f"arn:aws:secretsmanager:{HERE}:secret:shop/db-AbCd12",
                )
            ],
        ),
        (
            "ssm",
            "GetParameter",
            {"Name": f"arn:aws:ssm:{HERE}:parameter/shop/token"},
            [("ssm:GetParameter", f"arn:aws:ssm:{HERE}:parameter/shop/token")],
        ),
        ("s3", "ListObjectsV2", {"Bucket": "b"}, [("s3:ListBucket", "arn:aws:s3:::b")]),
        ("s3", "ListBuckets", {}, [("s3:ListAllMyBuckets", "*")]),
        (
            "s3",
            "DeleteObjects",
            {"Bucket": "b", "Keys": ["x", "y"]},
            [("s3:DeleteObject", "arn:aws:s3:::b/x"), ("s3:DeleteObject", "arn:aws:s3:::b/y")],
        ),
        (
            "sqs",
            "SendMessageBatch",
            {"QueueUrl": f"http://127.0.0.1:1/{ACCOUNT}/jobs"},
            [("sqs:SendMessage", f"arn:aws:sqs:{HERE}:jobs")],
        ),
        (
            "glue",
            "GetTable",
            {"DatabaseName": "d", "Name": "t"},
            [
                ("glue:GetTable", f"arn:aws:glue:{HERE}:database/d"),
                ("glue:GetTable", f"arn:aws:glue:{HERE}:catalog"),
                ("glue:GetTable", f"arn:aws:glue:{HERE}:table/d/t"),
            ],
        ),
        (
            "glue",
            "UpdateTable",
            {"DatabaseName": "d", "TableInput": {"Name": "t"}},
            [
                ("glue:UpdateTable", f"arn:aws:glue:{HERE}:database/d"),
                ("glue:UpdateTable", f"arn:aws:glue:{HERE}:catalog"),
                ("glue:UpdateTable", f"arn:aws:glue:{HERE}:table/d/t"),
            ],
        ),
        (
            "glue",
            "GetDatabase",
            {"Name": "d"},
            [
                ("glue:GetDatabase", f"arn:aws:glue:{HERE}:database/d"),
                ("glue:GetDatabase", f"arn:aws:glue:{HERE}:catalog"),
            ],
        ),
        (
            "ecs",
            "RunTask",
            {"taskDefinition": "small", "cluster": "c"},
            [
                ("ecs:RunTask", f"arn:aws:ecs:{HERE}:task-definition/small:3"),
                ("iam:PassRole", ROLE),
            ],
        ),
        (
            "ecs",
            "RunTask",
            {"taskDefinition": "small", "cluster": "c", "tags": [{"key": "a", "value": "b"}]},
            [
                ("ecs:RunTask", f"arn:aws:ecs:{HERE}:task-definition/small:3"),
                ("ecs:TagResource", f"arn:aws:ecs:{HERE}:task/c/-"),
                ("iam:PassRole", ROLE),
            ],
        ),
        (
            "ecs",
            "DescribeTasks",
            {"cluster": "c", "tasks": ["1", f"arn:aws:ecs:{HERE}:task/c/2"]},
            [("ecs:DescribeTasks", f"arn:aws:ecs:{HERE}:task/c/{n}") for n in (1, 2)],
        ),
        (
            "ecs",
            "ListTasks",
            {"cluster": "c"},
            [("ecs:ListTasks", f"arn:aws:ecs:{HERE}:container-instance/c/-")],
        ),
        (
            "states",
            "DescribeExecution",
            {"executionArn": f"arn:aws:states:{HERE}:execution:m:e"},
            [("states:DescribeExecution", f"arn:aws:states:{HERE}:execution:m:e")],
        ),
        (
            "lambda",
            "Invoke",
            {"FunctionName": "f"},
            [("lambda:InvokeFunction", f"arn:aws:lambda:{HERE}:function:f")],
        ),
        (
            "emr-serverless",
            "StartJobRun",
            {"applicationId": "a", "executionRoleArn": ROLE},
            [
                ("emr-serverless:StartJobRun", f"arn:aws:emr-serverless:{HERE}:/applications/a"),
                ("iam:PassRole", ROLE),
            ],
        ),
        (
            "events",
            "PutEvents",
            {"Entries": [{"Source": "ours"}]},
            [("events:PutEvents", f"arn:aws:events:{HERE}:event-bus/default")],
        ),
        (
            "dynamodb",
            "Query",
            {"TableName": "leases", "IndexName": "open"},
            [("dynamodb:Query", f"{TABLE}/index/open")],
        ),
        (
            "dynamodb",
            "BatchGetItem",
            {"RequestItems": {"leases": {"Keys": []}, "others": {"Keys": []}}},
            [
                ("dynamodb:BatchGetItem", TABLE),
                ("dynamodb:BatchGetItem", f"arn:aws:dynamodb:{HERE}:table/others"),
            ],
        ),
        ("sts", "GetCallerIdentity", {}, []),
    ],
)
def test_a_call_is_the_actions_that_a_policy_must_allow(
    reference: Reference,
    service: str,
    operation: str,
    parameters: dict[str, Any],
    expected: list[tuple[str, str]],
) -> None:
    assert sorted(accesses(reference, service, operation, **parameters)) == sorted(expected)


def test_a_copy_reads_its_source(reference: Reference) -> None:
    headers = {"x-amz-copy-source": "/from/a%20b?versionId=1"}
    found = reference.accesses(call("s3", "CopyObject", headers, Bucket="to", Key="k"), KNOWN)
    assert [(each.action, each.resource) for each in found] == [
        ("s3:GetObject", "arn:aws:s3:::from/a b"),
        ("s3:PutObject", "arn:aws:s3:::to/k"),
    ]


def test_a_call_has_the_condition_keys_of_its_parameters(reference: Reference) -> None:
    update = call(
        "dynamodb",
        "UpdateItem",
        {},
        TableName="leases",
        Key={"key": {"S": "main#1"}, "item": {"S": "lease"}},
        UpdateExpression="SET #s = :s, progress.phase = if_not_exists(phase, :p) REMOVE old",
        ConditionExpression="attempt = :a AND NOT attribute_exists(gone)",
        ExpressionAttributeNames={"#s": "state"},
    )
    (access,) = reference.accesses(update, KNOWN)
    assert access.context == {
        "dynamodb:Attributes": [
            *("attempt", "gone", "item", "key", "old", "phase", "progress", "state")
        ],
        "dynamodb:LeadingKeys": ["main#1"],
    }


def test_a_query_has_the_partition_key_that_it_asks_for(reference: Reference) -> None:
    query = call(
        "dynamodb",
        "Query",
        {},
        TableName="leases",
        IndexName="open",
        KeyConditionExpression="#o = :o AND at > :t",
        ExpressionAttributeNames={"#o": "owner"},
        ExpressionAttributeValues={":o": {"S": "main"}, ":t": {"N": "1"}},
    )
    (access,) = reference.accesses(query, KNOWN)
    assert access.context["dynamodb:LeadingKeys"] == ["main"]


def test_each_item_of_a_transaction_is_an_action_of_its_own(reference: Reference) -> None:
    key = {"Key": {"key": {"S": "a"}}, "TableName": "leases"}
    items = [{"Update": key}, {"ConditionCheck": key}]
    found = reference.accesses(
        call("dynamodb", "TransactWriteItems", {}, TransactItems=items), KNOWN
    )
    assert [each.action for each in found] == ["dynamodb:UpdateItem", "dynamodb:ConditionCheckItem"]
    assert found[0] == Access(
        "dynamodb:UpdateItem",
        TABLE,
        {
            "dynamodb:Attributes": ["key"],
            "dynamodb:LeadingKeys": ["a"],
        },
    )


def test_a_role_that_is_passed_names_the_service_that_gets_it(reference: Reference) -> None:
    found = reference.accesses(call("ecs", "RunTask", {}, taskDefinition="small"), KNOWN)
    assert found[-1].context == {"iam:PassedToService": "ecs-tasks.amazonaws.com"}


def test_a_call_that_the_reference_does_not_know_is_none(reference: Reference) -> None:
    with pytest.raises(UnknownCallError, match="s3:Invented"):
        reference.accesses(call("s3", "Invented", {}, Bucket="b"), KNOWN)


@pytest.mark.parametrize(("service", "operation"), sorted({*OTHER_NAMES, *FREE}))
def test_an_operation_has_another_name_only_where_none_of_its_own_is_an_action(
    reference: Reference, service: str, operation: str
) -> None:
    model = botocore.session.get_session().get_service_model(service)
    assert operation in model.operation_names
    if (service, operation) in FREE:
        return
    actions = reference._file("actions", service)
    assert operation.lower() not in actions
    assert OTHER_NAMES[service, operation].lower() in actions
