"""The package index has every requirement for each machine that docs/first-job.md names.

pip's own resolver answers, for a machine that it does not run on. Markers of requirements that
come with others it takes for this machine's. Nothing is installed.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from longhaul.cdk.layer import platforms
from tests.layers import ROOT

pytestmark = pytest.mark.slow

LINUX: Final = {"Linux x86-64": platforms("x86_64"), "Linux arm64": platforms("arm64")}
MACHINES: Final = LINUX | {
    "macOS arm64": [*platforms("arm64")[:2], "--platform=macosx_15_0_arm64"],
}
SOURCE_ONLY: Final = frozenset({"pyspark"})
"""Published without a wheel: pure Python, and jars."""

LOCKS: Final = (
    "functions/requirements",
    "longhaul/runner/requirements",
    "longhaul/runner/build-requirements",
)
ANSWERED_WITHIN_S: Final = 900
_PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_PIP, *arguments],
        capture_output=True,
        text=True,
        timeout=ANSWERED_WITHIN_S,
        check=False,
    )


@pytest.fixture(scope="module")
def _index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without an index that answers there is nothing to ask."""
    small = next(each for each in stated(ROOT / "requirements.txt") if each.name == "constructs")
    folder = tmp_path_factory.mktemp("wheel")
    asked = pip("download", "--retries=1", "--no-cache-dir", "--no-deps", f"-d{folder}", str(small))
    if asked.returncode:
        pytest.skip(f"no package index answers here: {asked.stderr.strip().splitlines()[-1]}")


def stated(file: Path) -> list[Requirement]:
    """The requirements of a file, without those of a file that it includes."""
    lines = (line.partition("#")[0].strip() for line in file.read_text("utf-8").splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("-r")]


def of_machine(machine: str) -> list[str]:
    """What `make setup` installs there, but for what is built from source, with what that needs."""
    system = {"sys_platform": "linux" if machine in LINUX else "darwin"}
    locked = (ROOT / "longhaul/runner/requirements.lock").read_text("utf-8")
    needed = next(line for line in locked.splitlines() if line.startswith("py4j=="))
    found = [needed.removesuffix(" \\")]
    for file in ("requirements.txt", "requirements-dev.txt"):
        for each in stated(ROOT / file):
            if each.name not in SOURCE_ONLY and (not each.marker or each.marker.evaluate(system)):
                each.marker = None  # pip would take it for this machine's
                found.append(str(each))
    return found


@pytest.mark.usefixtures("_index")
@pytest.mark.parametrize("machine", MACHINES)
def test_every_requirement_has_a_wheel(machine: str) -> None:
    wanted = of_machine(machine)
    assert ("awslambdaric" in " ".join(wanted)) == (machine in LINUX)

    report = pip(
        *("install", "--quiet", "--dry-run", "--ignore-installed", "--report=-"),
        *("--only-binary=:all:", *MACHINES[machine], "--target=unused", *wanted),
    )

    assert report.returncode == 0, report.stderr
    assert len(json.loads(report.stdout)["install"]) > len(wanted)


@pytest.mark.usefixtures("_index")
@pytest.mark.parametrize("machine", LINUX)
@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_a_wheel_with_a_hash_of_the_lock(
    lock: str, machine: str, tmp_path: Path
) -> None:
    text = (ROOT / f"{lock}.lock").read_text("utf-8").replace("\\\n", " ")
    wheels = [line for line in text.splitlines() if line.partition("==")[0] not in SOURCE_ONLY]
    asked = tmp_path / "wheels.lock"
    asked.write_text("\n".join(wheels))

    report = pip(
        *("install", "--quiet", "--dry-run", "--ignore-installed", "--report=-", "--no-deps"),
        *("--only-binary=:all:", *LINUX[machine], "--target=unused", "--require-hashes"),
        *("-r", str(asked)),
    )

    assert report.returncode == 0, report.stderr
    assert {each["metadata"]["name"] for each in json.loads(report.stdout)["install"]}


@pytest.mark.usefixtures("_index")
def test_what_has_no_wheel_is_published_as_source(tmp_path: Path) -> None:
    """It is of Python and jars, and pip builds it on any machine."""
    wanted = stated(ROOT / "longhaul/runner/requirements.txt")
    sources = [str(each) for each in wanted if each.name in SOURCE_ONLY]

    fetched = pip(
        "download", "--quiet", "--no-deps", "--no-binary=:all:", f"-d{tmp_path}", *sources
    )

    assert fetched.returncode == 0, fetched.stderr
    (archive,) = tmp_path.iterdir()
    assert archive.name.endswith(".tar.gz")
