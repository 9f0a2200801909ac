"""What a stage's setting of a secret names."""

import pytest
from pydantic import JsonValue

from longhaul.config.cdk_context import read
from longhaul.core.secret_refs import SecretRef

SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:shop/db-AbCd12"
PARAMETER = "arn:aws:ssm:eu-central-1:123456789012:parameter/shop/db/password"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SECRET, SecretRef("secretsmanager", SECRET, "eu-central-1")),
        (f"{SECRET}:password::", SecretRef("secretsmanager", SECRET, "eu-central-1", "password")),
        (
            f"{SECRET}:::0af7c8",
            SecretRef("secretsmanager", SECRET, "eu-central-1", version_id="0af7c8"),
        ),
        (
            f"{SECRET}:a key:AWSPREVIOUS:",
            SecretRef("secretsmanager", SECRET, "eu-central-1", "a key", "AWSPREVIOUS"),
        ),
        (PARAMETER, SecretRef("ssm", PARAMETER, "eu-central-1")),
        # What the same app makes: CloudFormation will say its ARN.
        ("${Token[TOKEN.7]}", SecretRef("secretsmanager", "${Token[TOKEN.7]}", "")),
        (
            "${Token[TOKEN.7]}:password::",
            SecretRef("secretsmanager", "${Token[TOKEN.7]}", "", "password"),
        ),
        (
            "arn:${Token[AWS.Partition.1]}:ssm:${Token[AWS.Region.2]}:123456789012:parameter/a",
            SecretRef(
                "ssm",
                "arn:${Token[AWS.Partition.1]}:ssm:${Token[AWS.Region.2]}:123456789012:parameter/a",
                "",
            ),
        ),
    ],
)
def test_a_setting_names_a_secret_as_ecs_has_it_or_a_parameter(text: str, said: SecretRef) -> None:
    assert SecretRef.parse(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "hunter22",
        "shop/db",
        # Without the six characters IAM would not let the role read it.
        SECRET.removesuffix("-AbCd12"),
        f"{SECRET}:password",
        f"{SECRET}:password:",
        f"{SECRET}:key:AWSCURRENT:0af7c8",
        f"{PARAMETER}:3:4",
        "arn:aws:s3:::shop",
        "arn:aws:secretsmanager:eu-central-1:123456789012:secret:*-AbCd12",
        "arn:aws:ssm:eu-central-1:123456789012:parameter/*",
    ],
)
def test_all_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither the ARN|name one"):
        SecretRef.parse(text)


def test_a_value_in_the_place_of_an_arn_is_not_repeated() -> None:
    with pytest.raises(ValueError, match=r"^this is neither the ARN") as refused:
        SecretRef.parse("hunter22")
    assert "hunter22" not in str(refused.value)


@pytest.mark.parametrize("secrets", ["hunter22", {"PIN": 20131231}, {"A": ["hunter22"]}])
def test_what_else_is_in_the_place_of_secrets_is_not_repeated(secrets: JsonValue) -> None:
    problems = read({"stages": [{"name": "main", "advanced": {"secrets": secrets}}]})
    assert isinstance(problems, list)
    assert problems
    assert not any(each in str(problems) for each in ("hunter22", "20131231"))
