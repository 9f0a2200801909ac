"""Settings as a function or a task reads them, perhaps those of a newer version."""

import json
from collections.abc import Iterator
from typing import Final

import pytest
from pydantic import JsonValue

from longhaul.config.cdk_context import read
from longhaul.config.errors import SettingsError
from longhaul.config.sizes import Sizes
from longhaul.config.stages import StageDeployment, Watched, watched
from longhaul.core.metrics import EmfMetrics
from longhaul.core.secret_refs import SecretRef
from longhaul.core.settings import VARIABLE, RuntimeSettings, runtime_settings
from tests.builders import settings
from tests.emf import Datum, metrics_in
from tests.projects import checked

SETTINGS: Final = settings()


@pytest.fixture(autouse=True)
def unread() -> Iterator[None]:
    """Settings are read once in a process: forget them before and after the test."""
    runtime_settings.cache_clear()
    yield
    runtime_settings.cache_clear()


def test_code_reads_settings_of_a_newer_version_and_ignores_what_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # For the seconds of a deploy, and of a rollback, old code has the new environment.
    newer = json.loads(SETTINGS.model_dump_json())
    newer["tariff"] = 1
    newer["lease"]["patience_s"] = 2
    newer["stages"][0]["colour"] = "blue"
    monkeypatch.setenv(VARIABLE, json.dumps(newer))

    assert runtime_settings() == SETTINGS


def test_a_known_setting_with_a_wrong_value_is_still_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = json.loads(SETTINGS.model_dump_json())
    wrong["lease"]["beat_floor_s"] = 0
    monkeypatch.setenv(VARIABLE, json.dumps(wrong))

    with pytest.raises(ValueError, match="beat_floor_s"):
        runtime_settings()


def test_synthesis_refuses_a_setting_that_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="extra_forbidden"):
        RuntimeSettings.model_validate({**SETTINGS.model_dump(), "tariff": 1})


# The expressions of a stage's setting `alarms`.


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("parse: bad_rows > 100", Watched("parse", "bad_rows", ">", 100)),
        ("s3://b/jobs/a.py: share<=-0.5", Watched("s3://b/jobs/a.py", "share", "<=", -0.5)),
    ],
)
def test_an_expression_names_a_job_a_metric_and_a_threshold(
    expression: str, found: Watched
) -> None:
    assert watched(expression) == found


@pytest.mark.parametrize(
    "expression", ["", "bad_rows > 1", "parse: bad_rows", "parse: 1x > 1", "parse: x > y"]
)
def test_another_text_is_refused_with_an_example(expression: str) -> None:
    with pytest.raises(ValueError, match="as in `parse: bad_rows > 100`"):
        StageDeployment.model_validate({"name": "main", "advanced": {"alarms": [expression]}})


def test_what_a_job_measured_is_a_metric_of_its_stage_and_its_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    EmfMetrics("Longhaul").put_of_job({"bad_rows": 12}, stage="main", job="parse")

    dimensions = frozenset({("stage", "main"), ("job", "parse")})
    assert list(metrics_in(capsys.readouterr().out)) == [
        Datum("Longhaul", "bad_rows", dimensions, "None", 12)
    ]


# What a stage's setting of a secret names.


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


# The limits of EMR Serverless and the sizes of jobs.


LARGEST = max(Sizes().by_name().values(), key=lambda size: (size.cpu, size.memory_mib))
VCPU, GIB = 2 * LARGEST.cpu // 1024, 2 * LARGEST.memory_mib // 1024


def test_limits_that_just_hold_a_driver_and_an_executor_of_the_largest_size_are_taken() -> None:
    assert checked({"emr_serverless": {"max_vcpu": VCPU, "max_memory_gib": GIB}})


@pytest.mark.parametrize(("vcpu", "gib"), [(VCPU - 1, GIB), (VCPU, GIB - 1)])
def test_limits_below_them_are_refused_because_such_a_job_would_wait_for_ever(
    vcpu: int, gib: int
) -> None:
    with pytest.raises(SettingsError, match="hold a driver and an executor of size xlarge"):
        checked({"emr_serverless": {"max_vcpu": vcpu, "max_memory_gib": gib}})
