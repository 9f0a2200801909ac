"""A team's project: its settings, jobs and requirements, and errors by file and line."""

import json
import os
import re
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from longhaul.cdk.app import build
from longhaul.cdk.image import DOCKERFILE, PROJECT_DOCKERFILE, lay_out
from longhaul.cdk.layer import platforms
from longhaul.config.errors import SettingsError
from longhaul.config.job_files import check
from longhaul.config.project import Project, load_project
from longhaul.config.project_file import FILE, find
from longhaul.config.requirements import check_for_image, install
from longhaul.config.settings import Settings
from tests.cdk.synthesis import NO_COPIES
from tests.layers import ROOT
from tests.projects import make_project, make_wheel

JOB = "def run(spark, job):\n    pass\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "daily-flights")


def problems(tmp_path: Path, **files: str) -> list[str]:
    """What is wrong with the jobs of a project, with paths below its folder."""
    made = make_project(tmp_path / "p", **files)
    with pytest.raises(SettingsError) as refused:
        check(made)
    return str(refused.value).replace(f"{made.folder}/", "").splitlines()


def test_a_new_project_has_the_defaults_under_a_name_of_its_own(project: Project) -> None:
    assert project.checked() == Settings(stack_name="DailyFlights", stages=project.checked().stages)
    assert [(each.name, each.slots) for each in project.checked().stages] == [("main", 10)]
    assert project.job_names == ("count_rows", "count_rows_spark", "probe", "sql")
    check(project)


def test_a_project_is_found_from_its_folders_upwards(project: Project, tmp_path: Path) -> None:
    assert find(project.jobs) == project.folder
    assert find(project.folder) == project.folder
    assert find(tmp_path) is None


@pytest.mark.parametrize("place", [".", FILE])
def test_a_project_of_another_user_is_refused_unless_it_is_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Also one whose link leads to a file of our own."""
    (shared := tmp_path / "shared").mkdir()
    (shared / FILE).symlink_to(make_project(tmp_path / "own").file)
    owners = {shared / place: os.geteuid() + 1}
    monkeypatch.setattr(
        "longhaul.config.project_file._owner_of", lambda each: owners.get(each, os.geteuid())
    )
    with pytest.raises(SettingsError, match=r"belongs to another user.*longhaul --project"):
        find(shared)
    owners[shared / place] = 0
    assert find(shared) == shared


def test_a_project_in_a_folder_that_every_user_may_write_to_is_refused(tmp_path: Path) -> None:
    project = make_project(tmp_path / "flights")
    project.folder.chmod(0o1777)
    with pytest.raises(SettingsError, match="every user may write to"):
        find(project.jobs)


def test_a_folder_without_settings_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"is no project: it has no longhaul\.toml"):
        load_project(tmp_path)


def test_all_wrong_settings_are_named_with_lines_and_the_nearest_right_names(
    tmp_path: Path,
) -> None:
    text = (
        'version = "0.1.0"\n'
        'architekture = "arm64"\n'
        "[[stages]]\n"
        'name = "main"\n'
        "[[stages]]\n"
        'name = "clean"\n'
        "slot = 3\n"
        "[stages.advanced]\n"
        "timeout_s = -1\n"
        "[stages.advanced.limits]\n"
        "max_attempt = 3\n"
        "[sizes]\n"
        "small = { cpu = 7, memory_mib = 4096, disk_gib = 30 }\n"
    )
    made = make_project(tmp_path / "p", **{"longhaul.toml": text})
    with pytest.raises(SettingsError) as refused:
        made.checked()
    lines = [line.removeprefix(f"{made.file}:") for line in str(refused.value).splitlines()]
    assert [line.partition(":")[0] for line in lines] == ["2", "7", "9", "11", "13"]
    assert "architekture: is not a setting; did you mean architecture?" in lines[0]
    assert "stages.1.slot: is not a setting; did you mean slots?" in lines[1]
    assert "did you mean max_attempts?" in lines[3]


@pytest.mark.parametrize(
    ("of_stage", "why"),
    [
        (
            'job = "count_row"',
            (
                "job: there is no job 'count_row'; did you mean count_rows? "
                "there are: count_rows, count_rows_spark, probe, sql"
            ),
        ),
        (
            'advanced.limits = { jobs = ["no_such_job"] }',
            "advanced.limits.jobs.0: there is no job 'no_such_job'",
        ),
        (
            'advanced.alarms = ["count_rows: bad > 1", "count_row: bad > 1"]',
            "advanced.alarms.1: there is no job 'count_row'; did you mean count_rows?",
        ),
        (
            (
                'advanced.on_object.prefix = "in/"\n'
                'advanced.on_object.request = { inputs = { a = "{object}" }, mode = "append" }'
            ),
            "advanced.on_object.request: output: is missing",
        ),
    ],
)
def test_what_names_a_job_that_cannot_be_is_named_with_its_line(
    tmp_path: Path, of_stage: str, why: str
) -> None:
    text = f'job_prefixes = ["s3://code/jobs/"]\n[[stages]]\n{of_stage}\n'
    made = make_project(tmp_path / "p", **{"longhaul.toml": text})
    with pytest.raises(SettingsError) as refused:
        made.checked()
    assert re.match(rf"{made.file}:[34]: stages\.0\.{re.escape(why)}", str(refused.value))


def test_an_alarm_may_watch_code_by_its_path(tmp_path: Path) -> None:
    alarms = 'advanced.alarms = ["s3://code/jobs/parse.py: bad > 1", "count_rows: bad > 1"]'
    text = f'job_prefixes = ["s3://code/jobs/"]\n[[stages]]\nname = "main"\n{alarms}\n'
    assert make_project(tmp_path / "p", **{"longhaul.toml": text}).checked()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stages = = 1", ":1: is no TOML"),
        ("version = 1", ":1: version: write it as a text"),
    ],
)
def test_a_file_that_is_no_settings_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "longhaul.toml").write_text(text)
    with pytest.raises(SettingsError, match=f"longhaul.toml.*{says}"):
        load_project(tmp_path)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("version = '1'\nlease.beat_floor_s = 0\n", 2),
        ("[[stages]]\n[[stages]]\nadvanced = { limits = { max_size = 7 } }\n", 3),
        ("version = '1'\n[network]\n\nvpc_id = 'vpc'\n", 4),
        ("env.prod.slots = 1\nslots = 2\n[env.dev]\nslots = 1\n", 2),
    ],
    ids=["dotted", "inline", "in a table", "of no environment"],
)
def test_a_wrong_setting_is_named_by_its_line(tmp_path: Path, text: str, line: int) -> None:
    made = make_project(tmp_path / "p", **{"longhaul.toml": text})
    with pytest.raises(SettingsError, match=rf"^{re.escape(str(made.file))}:{line}: [^\n]*$"):
        made.checked()


def test_jobs_that_could_never_run_are_named_by_file_and_line(tmp_path: Path) -> None:
    assert problems(
        tmp_path,
        jobs__late="",
        **{
            "jobs/days.py": JOB,
            "jobs/days/__init__.py": "",
            "jobs/helper.py": '"""No job."""\nimport os\nX = 1\n',
            "jobs/json.py": JOB,
            "jobs/later.py": "X = 1\n\n\nasync def run(spark, job):\n    pass\n",
            "jobs/only_data.py": "import os\n\n\ndef run(data):\n    pass\n",
            "jobs/sql.py": JOB,
            "jobs/plain.py": "def run(job):\n    pass\n",
            "jobs/script.py": "def run(data):\n    print(data)\n\n\nrun(1)\n",
            "jobs/small_words.py": JOB,
            ".longhaul/packages/small_words.py": "X = 1\n",  # of a requirement
            "jobs/wrong.py": "def run(spark, job):\n  return (\n",
        },
    ) == [
        "jobs/days.py:1: there is a folder days/ beside it: two modules of one name",
        (
            "jobs/helper.py:1: has no `def run(spark, job)` or `def run(job)`, and does nothing "
            "as a script; a module that jobs share begins with _"
        ),
        "jobs/json.py:1: Python has a module 'json' already; give this one another name",
        (
            "jobs/later.py:4: `async def run(spark, job)` is no job's: `def run(spark, job)` is "
            "one with Spark, and `def run(job)` one without; a module that jobs share begins with _"
        ),
        (
            "jobs/only_data.py:4: `def run(data)` is no job's: `def run(spark, job)` is one with "
            "Spark, and `def run(job)` one without; a module that jobs share begins with _"
        ),
        (
            "jobs/small_words.py:1: Python has a module 'small_words' already; "
            "give this one another name"
        ),
        "jobs/sql.py:1: Longhaul has a job 'sql' already; give this one another name",
        "jobs/wrong.py:2: is no Python: '(' was never closed",
    ]


def test_a_job_with_the_name_of_the_package_that_is_beside_it_in_the_image_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the installed command finds it: the checkout is not on the path.
    monkeypatch.setattr(sys, "path", [each for each in sys.path if Path(each) != ROOT])
    files = {
        "jobs/engines.py": JOB,
        "jobs/longhaul.py": JOB,
        "jobs/jobs/part.py": "X = 1\n",
    }
    assert problems(tmp_path, **files) == [
        "jobs/longhaul.py:1: 'longhaul' is Longhaul's own package; give this one another name",
    ]


def test_scripts_helpers_and_packages_are_no_errors(tmp_path: Path) -> None:
    files = {
        "jobs/script.py": "from pyspark.sql import SparkSession\nSparkSession.builder\nprint(1)\n",
        "jobs/_shared.py": "X = 1\n",
        "jobs/shared_things/part.py": "X = 1\n",
        "jobs/query.sql": "SELECT 1\n",
    }
    made = make_project(tmp_path / "p", **files)
    check(made)
    assert made.job_names == ("count_rows", "count_rows_spark", "probe", "script", "sql")


@pytest.mark.parametrize(
    "platform", [(), ("--only-binary=:all:", *platforms("arm64"))], ids=["here", "arm64"]
)
def test_requirements_are_installed_beside_ours_and_again_when_they_change(
    tmp_path: Path, platform: tuple[str, ...]
) -> None:
    wheel = make_wheel(tmp_path / "wheels", "small_words", "WORD = 'first'")
    requirements, target = tmp_path / "requirements.txt", tmp_path / "packages"
    digest = sha256(wheel.read_bytes()).hexdigest()
    requirements.write_text(f"--no-index\n{wheel.as_uri()} --hash=sha256:{digest}\n")

    install(requirements, target, ROOT, platform)

    assert "first" in (target / "small_words.py").read_text()
    made = target.stat().st_ino
    install(requirements, target, ROOT, platform)
    assert target.stat().st_ino == made
    requirements.write_text("# nothing any more\n")
    install(requirements, target, ROOT, platform)
    assert not (target / "small_words.py").exists()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("./small_words.whl", "is on this machine"),
        ("../small-words[all]", "is on this machine"),
        ("small_words-1.0-py3-none-any.whl --hash=sha256:00", "is on this machine"),
        ("file:///wheels/small_words.whl", "is on this machine"),
        ("small-words @ file:///wheels/small_words.whl", "is on this machine"),
        ("-e .", "is on this machine"),
        ("--editable=../words", "is on this machine"),
        ("--find-links wheels", "is on this machine"),
        ("-f/wheels", "is on this machine"),
        ("-e git+https://x.org/words", "is a repository"),
        ("small-words @ git+ssh://x.org/words@1.0", "is a repository"),
        ("-rmore.txt", "names another file"),
        ("--constraint limits.txt", "names another file"),
        ("--index-url https://x.org/${TOKEN}/simple", "needs a variable"),
    ],
)
def test_what_the_image_could_not_install_is_refused_by_its_line(
    tmp_path: Path, line: str, why: str
) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"# jobs\n\n{line}  # ours\n")
    with pytest.raises(SettingsError) as refused:
        check_for_image(requirements)
    assert str(refused.value).startswith(f"{requirements}:3: {line}: {why}")


@pytest.mark.parametrize("begin", ["-i ", "--extra-index-url=", "small-words @ "])
def test_an_address_with_a_password_is_refused_and_not_shown(tmp_path: Path, begin: str) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"{begin}https://user:pa55word@x.org/simple\n")
    with pytest.raises(SettingsError, match="has a user or a password") as refused:
        check_for_image(requirements)
    assert "pa55word" not in str(refused.value)


def test_what_an_index_or_an_address_has_is_for_the_image(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    check_for_image(requirements)  # the file may be missing
    requirements.write_text(
        "# ./not this\n--extra-index-url=https://x.org/simple\n--find-links https://x.org\n"
        "--require-hashes\nzope.interface==7.0 \\\n    --hash=sha256:00\n"
        'a[b]>=1 ; platform_machine != "x/y"  # git+no\n'
        "c @ https://x.org/c-1.0-py3-none-any.whl\nhttps://x.org/d-1.0.tar.gz\n"
    )
    check_for_image(requirements)


@pytest.mark.parametrize(
    ("requires", "hashed", "says"),
    [
        (
            "pydantic==1.0",
            "",
            r"requirements.txt:2: .*clashes with what the image holds:(.|\n)*pydantic",
        ),
        ("", " --hash=sha256:" + "0" * 64, r"requirements.txt:2: .*does not install:(.|\n)*hash"),
    ],
    ids=["clashes with ours", "another hash"],
)
def test_a_requirement_that_does_not_install_is_named_by_its_line(
    tmp_path: Path, requires: str, hashed: str, says: str
) -> None:
    wheel = make_wheel(tmp_path / "wheels", "small_words", "", requires)
    make_wheel(tmp_path / "wheels", "pydantic", "")
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(
        f"--no-index --find-links={tmp_path}/wheels\n{wheel.as_uri()}{hashed}\n"
    )
    with pytest.raises(SettingsError, match=says):
        install(requirements, tmp_path / "packages", ROOT)
    assert not (tmp_path / "packages").exists()


@pytest.mark.parametrize(
    ("files", "added"),
    [
        ({}, ["ENV", "COPY"]),
        (
            {"requirements.txt": "small-words==1.0\n"},
            ["USER", "COPY", "RUN", "USER", "ENV", "COPY"],
        ),
    ],
    ids=["", "with requirements"],
)
def test_the_image_ends_with_the_project_and_its_other_layers_are_the_checkouts(
    tmp_path: Path, files: dict[str, str], added: list[str]
) -> None:
    lay_out(tmp_path / "image", ROOT, make_project(tmp_path / "p", **files))
    steps = (tmp_path / "image" / PROJECT_DOCKERFILE).read_text()
    ours = (ROOT / DOCKERFILE).read_text()
    assert steps.startswith(ours)
    assert (tmp_path / "image" / DOCKERFILE).read_text() == ours  # it is in our code's layer
    more = [line.split()[0] for line in steps.removeprefix(ours).splitlines() if line[:1].isupper()]
    assert more == added
    assert steps.endswith("COPY project/jobs /opt/project/jobs\n")
    assert (tmp_path / "image" / "project" / "jobs" / "count_rows.py").exists()
    assert (tmp_path / "image" / "longhaul" / "engines" / "fargate" / "runner.py").exists()
    if files:
        limits = (tmp_path / "image" / "project" / "constraints.txt").read_text()
        assert ("pyspark==" in limits, "--hash" in limits) == (True, False)


def template_of(project: Project, outdir: Path) -> dict[str, Any]:
    build(
        outdir=str(outdir),
        context={**NO_COPIES, "longhaul": {"emr_serverless": {}}},
        project=project,
    ).synth()
    content: dict[str, Any] = json.loads((outdir / "P.template.json").read_text())
    return content["Resources"]


def test_a_change_of_a_job_changes_the_image_and_its_archive_and_nothing_of_the_functions(
    tmp_path: Path,
) -> None:
    made = make_project(tmp_path / "p")
    before = template_of(made, tmp_path / "before")
    with (made.jobs / "count_rows.py").open("a") as job:
        job.write("# changed\n")
    after = template_of(made, tmp_path / "after")

    changed = {before[name]["Type"] for name in before if before[name] != after[name]}
    assert changed == {"AWS::ECS::TaskDefinition", "AWS::StepFunctions::StateMachine"}
    environment = next(
        each["Properties"]["Environment"]["Variables"]["LONGHAUL_SETTINGS"]
        for each in after.values()
        if each["Type"] == "AWS::Lambda::Function"
    )
    jobs = '"jobs":["count_rows","count_rows_spark","probe","sql"]'
    assert jobs in json.dumps(environment).replace("\\", "")
