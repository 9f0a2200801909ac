"""The wheel on a machine without a checkout: in empty environments, with what README says."""

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from longhaul.config.sources import SHIPPED, version
from tests.layers import ROOT

pytestmark = pytest.mark.slow

NEEDED: Final = ("longhaul", "functions", "cdk.json", ".dockerignore", "requirements.txt")
DESCRIBED: Final = ("setup.py", "pyproject.toml", "README.md", "LICENSE")
BASE_LIMIT: Final = 120 * 10**6
LOCAL_LIMIT: Final = 700 * 10**6
INSTALLED_WITHIN_S: Final = 1800
RUN_WITHIN_S: Final = 1800


class Installation:
    """An environment with the wheel, and a folder to work in."""

    def __init__(self, folder: Path, requirement: str) -> None:
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        self.cache = folder / "cache"
        self.bin = folder / "venv" / "bin"
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        self.site = next((folder / "venv").glob("lib/python3*/site-packages"))
        self.install(requirement)

    def install(self, requirement: str) -> None:
        subprocess.run(
            [self.bin / "pip", "install", "--quiet", "--no-input", requirement],
            check=True,
            timeout=INSTALLED_WITHIN_S,
        )

    def size(self) -> int:
        """The bytes of what is installed, without pip itself."""
        files = (each for each in self.site.rglob("*") if (self.site / "pip") not in each.parents)
        return sum(each.stat().st_size for each in files if each.is_file())

    def environment(self, **variables: str) -> dict[str, str]:
        """This process's own, without what leads to the checkout or to AWS."""
        ours = ("AWS_", "LONGHAUL_", "PYTHON", "VIRTUAL_ENV", "PATH")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        path = os.pathsep.join([str(self.bin), "/usr/bin", "/bin"])
        return kept | {"PATH": path, "XDG_CACHE_HOME": str(self.cache), **variables}

    def run(
        self, *command: str, cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=cwd or self.work,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            timeout=RUN_WITHIN_S,
            check=False,
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from what it needs, and nothing else of the checkout."""
    source = tmp_path_factory.mktemp("source")
    for name in (*NEEDED, *DESCRIBED):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    made = tmp_path_factory.mktemp("dist")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-input", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", made, source], check=True, timeout=INSTALLED_WITHIN_S)
    return made / f"longhaul_jobs-{version()}-py3-none-any.whl"


def installed(wheel: Path, extra: str, folder: Path) -> Iterator[Installation]:
    yield Installation(folder, f"{wheel}{extra}")
    shutil.rmtree(folder)  # gigabytes, which pytest would keep


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    yield from installed(wheel, "", tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def local(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    yield from installed(wheel, "[local]", tmp_path_factory.mktemp("local"))


@pytest.fixture(scope="module")
def with_cdk(wheel: Path, local: Installation) -> Installation:
    """Last: until then `local` is without it."""
    local.install(f"{wheel}[deploy]")
    return local


@pytest.fixture(scope="module")
def project(local: Installation) -> Path:
    made = local.run("longhaul", "init", "flights")
    assert made.returncode == 0, made.stderr
    return local.work / "flights"


def test_the_wheel_is_one_package_with_every_file_that_it_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    tracked = subprocess.check_output(
        ["git", "-C", str(ROOT), "ls-files", "longhaul", "functions", "cdk.json", ".dockerignore"],  # noqa: S607 - the git on PATH
        text=True,
    ).splitlines()
    wanted = {
        each if each.startswith("longhaul/") else f"longhaul/{SHIPPED}/{each}" for each in tracked
    }

    assert {name.partition("/")[0] for name in names} == {"longhaul"}
    assert names == wanted | {f"longhaul/{SHIPPED}/pyproject.toml"}


def test_the_base_is_small_and_says_what_else_a_command_needs(base: Installation) -> None:
    assert base.size() < BASE_LIMIT
    assert base.run("longhaul", "--version").stdout == f"longhaul {version()}\n"
    assert base.run("python", "-c", "import longhaul.client, longhaul.job").returncode == 0
    asked = base.run("longhaul", "status", AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert asked.returncode == 4, asked.stderr
    for command, extra in (("up", "local"), ("deploy", "deploy")):
        refused = base.run("longhaul", command)
        assert refused.returncode == 2
        assert f"pip install 'longhaul-jobs[{extra}]'" in refused.stderr


def test_without_spark_a_projects_tests_run(local: Installation, project: Path) -> None:
    assert local.size() < LOCAL_LIMIT
    tested = local.run("longhaul", "test", cwd=project)

    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "2 passed, 1 skipped" in tested.stdout


def test_without_spark_a_plain_job_runs_on_it(local: Installation, project: Path) -> None:
    (project / "rows.csv").write_text("city,km\nOslo,3\nRome,5\nOslo,4\n")
    with subprocess.Popen(
        [local.bin / "longhaul", "up", "--port", "0"],
        cwd=project,
        env=local.environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as up:
        assert up.stdout is not None
        try:
            ready: dict[str, Any] = json.loads(up.stdout.readline())
            bucket = ready["outputs"]["DataBucketName"]
            request = (
                *("--input", f"rows=file://{project / 'rows.csv'}", "--param", "column=city"),
                *("--output", f"s3://{bucket}/counted/", "--job-id", "counted", "--wait"),
            )
            submit = partial(local.run, "longhaul", "submit", "--job", cwd=project)
            refused = submit("count_rows_spark", *request)
            assert (refused.returncode, "longhaul-jobs[spark]" in refused.stderr) == (2, True)
            sent = submit("count_rows", *request)
            assert sent.returncode == 0, sent.stderr
            status = local.run("longhaul", "status", "counted", "--json", cwd=project)
            assert json.loads(status.stdout)["state"] == "SUCCEEDED"
        finally:
            up.send_signal(signal.SIGTERM)
    assert list(local.site.rglob(".longhaul")) == []


def test_the_functions_are_those_of_a_checkout_to_the_byte(
    with_cdk: Installation, project: Path, tmp_path: Path
) -> None:
    mine = with_cdk.run("longhaul", "synth", "--output", str(tmp_path / "wheel"), cwd=project)
    assert mine.returncode == 0, mine.stderr
    assert Path(mine.stdout.strip()).is_file()
    ours = ("longhaul.cli.cli", "--project", project, "synth", "--output", tmp_path / "checkout")
    subprocess.run([sys.executable, "-m", *ours], cwd=ROOT, check=True, timeout=RUN_WITHIN_S)

    # Also the image, and the template: it names all assets by the hash of their content.
    assert _files(tmp_path / "wheel") == _files(tmp_path / "checkout")


def test_without_a_project_the_jobs_of_the_package_are_deployed(
    with_cdk: Installation, tmp_path: Path
) -> None:
    synth = "import sys; from pathlib import Path; from longhaul.cli.synth import synth; "
    made = with_cdk.run("python", "-c", f"{synth}synth(Path(sys.argv[1]))", str(tmp_path))

    assert made.returncode == 0, made.stderr
    template = (tmp_path / "Longhaul.template.json").read_text()
    assert r"\"jobs\":[\"probe\",\"sql\"]" in template


def _files(folder: Path) -> dict[str, bytes]:
    found = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    kept = {name: file for name, file in found.items() if _is_content(name)}
    return {name: file.read_bytes() for name, file in kept.items()}


def _is_content(name: str) -> bool:
    """Metadata of the assembly has paths of the machine."""
    return name.startswith("asset.") or name.endswith(".template.json")
