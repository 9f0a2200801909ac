"""Secrets as AWS returns them."""

import json
from functools import partial

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from longhaul.core.errors import SecretUnreadableError
from longhaul.core.secret_refs import SecretRef
from longhaul.runner.variables import AwsSecretValues
from tests.runner.conftest import Cloud

PARAMETER = "arn:aws:ssm:us-east-1:123456789012:parameter/shop/token"


@pytest.fixture
def values(cloud: Cloud) -> AwsSecretValues:
    del cloud
    return AwsSecretValues(partial(boto3.client, region_name="us-east-1"))


def _secret(value: str | bytes) -> str:
    client = boto3.client("secretsmanager", region_name="us-east-1")
    if isinstance(value, bytes):
        return client.create_secret(Name="shop/db", SecretBinary=value)["ARN"]
    return client.create_secret(Name="shop/db", SecretString=value)["ARN"]


def test_a_secret_is_read_whole_or_by_a_key_of_its_json(values: AwsSecretValues) -> None:
    arn = _secret(json.dumps({"password": "hunter22", "port": 5432}))
    assert json.loads(values.read_secret(SecretRef.parse(arn)))["port"] == 5432
    assert values.read_secret(SecretRef.parse(f"{arn}:password::")) == "hunter22"
    assert values.read_secret(SecretRef.parse(f"{arn}:port:AWSCURRENT:")) == "5432"


def test_a_parameter_is_read_decrypted(values: AwsSecretValues) -> None:
    ssm = boto3.client("ssm", region_name="us-east-1")
    ssm.put_parameter(Name="/shop/token", Value="hunter22", Type="SecureString")
    assert values.read_secret(SecretRef.parse(PARAMETER)) == "hunter22"


@pytest.mark.parametrize(
    ("value", "key", "why"),
    [
        ("hunter22", "password", "it holds no JSON object"),
        ('["hunter22"]', "password", "it holds no JSON object"),
        ('{"pin": "hunter22"}', "password", "has no key 'password'"),
        (b"hunter22", "", "holds bytes"),
    ],
)
def test_what_no_variable_can_hold_is_said_without_the_value(
    values: AwsSecretValues, value: str | bytes, key: str, why: str
) -> None:
    arn = _secret(value)
    with pytest.raises(SecretUnreadableError) as raised:
        values.read_secret(SecretRef.parse(f"{arn}:{key}::"))
    assert why in str(raised.value)
    assert "hunter22" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_secret_that_is_not_there_waits_for_people(values: AwsSecretValues) -> None:
    arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:gone-AbCd12"
    for missing in (arn, PARAMETER):
        with pytest.raises(SecretUnreadableError, match=r"NotFound"):
            values.read_secret(SecretRef.parse(missing))


@pytest.mark.parametrize(
    ("code", "is_final"),
    [
        ("AccessDeniedException", True),
        ("DecryptionFailure", True),
        ("InvalidRequestException", True),
        ("InternalServiceError", False),
        ("ThrottlingException", False),
    ],
)
def test_a_denial_waits_for_people_and_trouble_of_aws_for_the_next_attempt(
    code: str, *, is_final: bool
) -> None:
    client = boto3.client(
        "secretsmanager",
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    with Stubber(client) as stub:
        stub.add_client_error("get_secret_value", code, "no")
        values = AwsSecretValues(lambda _: client)
        arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:db-AbCd12"
        with pytest.raises(SecretUnreadableError if is_final else ClientError, match=code):
            values.read_secret(SecretRef.parse(arn))
