"""Requests of roles, judged before moto sees them."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from botocore.exceptions import ClientError
from moto.moto_api._internal.models import moto_api_backend

from longhaul.local.credentials import Credentials, NotTrustedError, aws_client
from longhaul.local.iam.gate import Gate
from longhaul.local.iam.judge import Access, Judge
from longhaul.local.moto_server import MotoServer
from longhaul.local.running import LOOPBACK
from tests.local.support import ACCOUNT, REGION, error_code
from tests.patience import DEADLINE_S

TRUSTED = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}}
TRUST = {"Version": "2012-10-17", "Statement": [{**TRUSTED, "Action": "sts:AssumeRole"}]}
ROLE = f"arn:aws:iam::{ACCOUNT}:role/job"


class Aws:
    def __init__(self, endpoint: str, gate: Gate) -> None:
        self.endpoint = endpoint
        self.gate = gate
        self.queue = f"{endpoint}/{ACCOUNT}/jobs"

    def client(self, service: str, **options: Any) -> Any:
        return aws_client(service, endpoint=self.endpoint, region=REGION, **options)

    def allow(self, *statements: dict[str, Any], effect: str = "Allow") -> None:
        full = [{"Effect": effect, "Resource": "*", **statement} for statement in statements]
        self.client("iam").put_role_policy(
            RoleName="job", PolicyName=effect, PolicyDocument=policy(*full)
        )

    def as_role(self, service: str) -> Any:
        return self.client(service, credentials=self.gate.lend(ROLE, "one", "lambda"))


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


@pytest.fixture
def aws(judge: Judge) -> Iterator[Aws]:
    moto_api_backend.reset()
    gate = Gate(judge, ACCOUNT, REGION)
    server = MotoServer(0, LOOPBACK, gate.around)
    aws = Aws(f"http://{LOOPBACK}:{server.port}", gate)
    aws.client("iam").create_role(RoleName="job", AssumeRolePolicyDocument=json.dumps(TRUST))
    aws.client("s3").create_bucket(Bucket="data")
    aws.client("s3").put_object(Bucket="data", Key="there", Body=b"1")
    aws.client("sqs").create_queue(QueueName="jobs")
    aws.client("dynamodb").create_table(
        TableName="leases",
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    yield aws
    server.stop()
    moto_api_backend.reset()


def denied(call: Callable[..., Any], **parameters: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    assert error_code(caught.value) in {"AccessDenied", "AccessDeniedException", "403"}
    return str(caught.value.response["Error"]["Message"])


def update(key: str) -> dict[str, Any]:
    return {
        "TableName": "leases",
        "Key": {"key": {"S": key}},
        "UpdateExpression": "SET progress = :p",
        "ExpressionAttributeValues": {":p": {"N": "1"}},
    }


def test_a_role_does_what_its_policies_allow(aws: Aws) -> None:
    aws.allow({"Action": ["s3:GetObject", "s3:PutObject", "sqs:SendMessage"]})
    s3 = aws.as_role("s3")
    s3.put_object(Bucket="data", Key="new", Body=b"2" * 100_000)
    assert s3.get_object(Bucket="data", Key="new")["ContentLength"] == 100_000
    aws.as_role("sqs").send_message(QueueUrl=aws.queue, MessageBody="hello")
    assert aws.client("sqs").receive_message(QueueUrl=aws.queue)["Messages"][0]["Body"] == "hello"


def test_what_no_policy_allows_is_denied_in_the_words_of_aws(aws: Aws) -> None:
    user = f"User: arn:aws:sts::{ACCOUNT}:assumed-role/job/one is not authorized to perform: "
    table = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/leases"
    assert denied(aws.as_role("dynamodb").update_item, **update("a")) == (
        f"{user}dynamodb:UpdateItem on resource: {table} because no identity-based policy allows "
        "the dynamodb:UpdateItem action"
    )
    assert denied(aws.as_role("s3").put_object, Bucket="data", Key="k", Body=b"1" * 300_000) == (
        f"{user}s3:PutObject on resource: arn:aws:s3:::data/k because no identity-based policy "
        "allows the s3:PutObject action"
    )
    assert denied(aws.as_role("lambda").invoke, FunctionName="f").startswith(
        f"{user}lambda:InvokeFunction on resource"
    )
    assert denied(aws.as_role("sqs").send_message, QueueUrl=aws.queue, MessageBody="x").startswith(
        f"{user}sqs:SendMessage"
    )
    assert denied(aws.as_role("sns").list_topics).startswith(f"{user}sns:ListTopics")
    assert "Contents" in aws.client("s3").list_objects_v2(Bucket="data")  # the administrator's


def test_conditions_of_a_policy_hold(aws: Aws) -> None:
    condition = {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["main#*"]},
        "ForAllValues:StringEquals": {"dynamodb:Attributes": ["key", "progress"]},
    }
    aws.allow({"Action": "dynamodb:UpdateItem", "Condition": condition})
    dynamodb = aws.as_role("dynamodb")
    dynamodb.update_item(**update("main#1"))
    denied(dynamodb.update_item, **update("other#1"))
    denied(dynamodb.update_item, **(update("main#1") | {"UpdateExpression": "SET owner = :p"}))


def test_a_deny_of_the_role_or_of_the_resource_wins(aws: Aws) -> None:
    aws.allow({"Action": ["s3:*", "sqs:*"]})
    aws.allow({"Action": "s3:PutObject", "Resource": "arn:aws:s3:::data/kept/*"}, effect="Deny")
    s3 = aws.as_role("s3")
    said = denied(s3.put_object, Bucket="data", Key="kept/a", Body=b"")
    assert said.endswith("with an explicit deny in an identity-based policy")
    of_bucket = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::data/*",
    }
    aws.client("s3").put_bucket_policy(Bucket="data", Policy=policy(of_bucket))
    of_queue = {**of_bucket, "Action": "sqs:SendMessage", "Resource": "*"}
    aws.client("sqs").set_queue_attributes(
        QueueUrl=aws.queue, Attributes={"Policy": policy(of_queue)}
    )
    for said in (
        denied(s3.get_object, Bucket="data", Key="there"),
        denied(aws.as_role("sqs").send_message, QueueUrl=aws.queue, MessageBody="x"),
    ):
        assert said.endswith("with an explicit deny in a resource-based policy")


def test_a_permissions_boundary_narrows_a_role(aws: Aws) -> None:
    aws.allow({"Action": "*"})
    iam = aws.client("iam")
    document = policy({"Effect": "Allow", "Action": "sqs:*", "Resource": "*"})
    made = iam.create_policy(PolicyName="bounds", PolicyDocument=document)["Policy"]
    iam.put_role_permissions_boundary(RoleName="job", PermissionsBoundary=made["Arn"])
    aws.as_role("sqs").get_queue_url(QueueName="jobs")
    said = denied(aws.as_role("s3").get_object, Bucket="data", Key="there")
    assert said.endswith("because no permissions boundary allows the s3:GetObject action")


def test_an_absent_object_is_denied_to_a_role_that_may_not_list(aws: Aws) -> None:
    aws.allow({"Action": ["s3:GetObject", "s3:PutObject"]})
    s3 = aws.as_role("s3")
    s3.put_object(Bucket="data", Key="a b+%2F/ü", Body=b"1")
    s3.get_object(Bucket="data", Key="a b+%2F/ü")
    assert "s3:ListBucket" in denied(s3.get_object, Bucket="data", Key="absent")
    denied(s3.head_object, Bucket="data", Key="absent")
    aws.allow({"Action": ["s3:GetObject", "s3:ListBucket"]})
    with pytest.raises(ClientError) as caught:
        s3.get_object(Bucket="data", Key="absent")
    assert error_code(caught.value) == "NoSuchKey"


def test_a_batch_of_deletes_is_judged_key_by_key(aws: Aws) -> None:
    aws.allow({"Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::data/a&b/*"})
    delete = aws.as_role("s3").delete_objects
    delete(Bucket="data", Delete={"Objects": [{"Key": "a&b/1"}, {"Key": "a&b/2"}]})
    said = denied(delete, Bucket="data", Delete={"Objects": [{"Key": "a&b/1"}, {"Key": "there"}]})
    assert "arn:aws:s3:::data/there" in said


def test_a_presigned_request_has_the_rights_of_who_signed_it(aws: Aws) -> None:
    url = aws.as_role("s3").generate_presigned_url(
        "get_object", Params={"Bucket": "data", "Key": "there"}
    )
    assert requests.get(url, timeout=DEADLINE_S).status_code == 403
    aws.allow({"Action": "s3:GetObject"})
    assert requests.get(url, timeout=DEADLINE_S).content == b"1"


def test_a_session_that_a_program_made_itself_is_judged_too(aws: Aws) -> None:
    made = aws.client("sts").assume_role(
        RoleArn=f"arn:aws:iam::{ACCOUNT}:role/job", RoleSessionName="own"
    )["Credentials"]
    own = Credentials(made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"])
    said = denied(aws.client("sqs", credentials=own).get_queue_url, QueueName="jobs")
    assert "assumed-role/job/own" in said
    identity = aws.client("sts", credentials=own).get_caller_identity()
    assert identity["Arn"].endswith(":assumed-role/job/own")


def test_what_a_role_lacks_is_said_once(aws: Aws, caplog: pytest.LogCaptureFixture) -> None:
    aws.allow({"Action": "s3:GetObject"})
    s3 = aws.as_role("s3")
    s3.get_object(Bucket="data", Key="there")
    for _ in range(2):
        denied(s3.delete_object, Bucket="data", Key="there")
    (said,) = [each.getMessage() for each in caplog.records if "denied" in each.getMessage()]
    there = "arn:aws:s3:::data/there"
    assert said.startswith(f"denied: role job, action s3:DeleteObject, resource {there}")
    lacking = {"Effect": "Allow", "Action": "s3:DeleteObject", "Resource": there}
    assert json.loads(said.partition("what is missing: ")[2]) == lacking


def test_a_role_is_lent_to_the_services_alone_that_its_trust_policy_names(
    aws: Aws, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(NotTrustedError, match=r"ecs-tasks\.amazonaws\.com may not assume the role"):
        aws.gate.lend(ROLE, "one", "ecs-tasks", f"arn:aws:ecs:{REGION}:{ACCOUNT}:*")
    assert "service ecs-tasks, action sts:AssumeRole" in caplog.text


@pytest.mark.parametrize(
    ("condition", "is_lent"),
    [
        ({"StringEquals": {"aws:SourceAccount": ACCOUNT}}, True),
        ({"StringEquals": {"aws:SourceAccount": "999999999999"}}, False),
        ({"ArnLike": {"aws:SourceArn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:*"}}, True),
        (
            {"ArnLike": {"aws:SourceArn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:other"}},
            False,
        ),
    ],
)
def test_conditions_of_a_trust_policy_hold(
    aws: Aws, condition: dict[str, Any], *, is_lent: bool
) -> None:
    statement = {**TRUSTED, "Action": "sts:AssumeRole", "Condition": condition}
    aws.client("iam").update_assume_role_policy(RoleName="job", PolicyDocument=policy(statement))
    function = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:f"
    if is_lent:
        aws.gate.lend(ROLE, "one", "lambda", function)
    else:
        with pytest.raises(NotTrustedError):
            aws.gate.lend(ROLE, "one", "lambda", function)


def test_a_role_assumes_another_one_only_if_that_trusts_it(aws: Aws) -> None:
    aws.allow({"Action": "sts:AssumeRole"})
    other = f"arn:aws:iam::{ACCOUNT}:role/other"
    iam, sts = aws.client("iam"), aws.as_role("sts")
    iam.create_role(RoleName="other", AssumeRolePolicyDocument=json.dumps(TRUST))
    denied(sts.assume_role, RoleArn=other, RoleSessionName="own")
    trusted = {"Effect": "Allow", "Principal": {"AWS": ROLE}, "Action": "sts:AssumeRole"}
    iam.update_assume_role_policy(RoleName="other", PolicyDocument=policy(trusted))
    sts.assume_role(RoleArn=other, RoleSessionName="own")


def test_what_a_service_does_with_a_role_is_judged(aws: Aws) -> None:
    queue = f"arn:aws:sqs:{REGION}:{ACCOUNT}:jobs"
    received = Access("sqs:ReceiveMessage", queue)
    assert not aws.gate.allows_role(ROLE, "lambda", received)
    aws.allow({"Action": "sqs:ReceiveMessage"})
    assert aws.gate.allows_role(ROLE, "lambda", received)
