"""The package index has every requirement for each machine that docs/first-job.md names.

Resolvers of uv and pip answer, for a machine that they do not run on. Nothing is installed. What
is built from source, a fresh machine builds before its first test.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from longhaul.core.settings import Architecture
from tests.layers import ROOT

pytestmark = pytest.mark.slow

LINUX: Final[Mapping[str, Architecture]] = {"Linux x86-64": "x86_64", "Linux arm64": "arm64"}
MACHINES: Final = {
    "Linux x86-64": "x86_64-manylinux_2_28",
    "Linux arm64": "aarch64-manylinux_2_28",
    "macOS arm64": "aarch64-apple-darwin",
}
SOURCE_ONLY: Final = frozenset({"pyspark"})
"""Published without a wheel: pure Python, and jars."""

ANSWERED_WITHIN_S: Final = 900
_UV: Final = (str(Path(sys.executable).with_name("uv")), "pip", "compile", "--no-annotate", "-")


def answer(command: Sequence[str], wanted: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        input=wanted,
        capture_output=True,
        text=True,
        timeout=ANSWERED_WITHIN_S,
        check=False,
    )


@pytest.fixture(scope="module")
def _index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without an index that answers there is nothing to ask."""
    cache = tmp_path_factory.mktemp("cache")
    asked = answer([*_UV, f"--cache-dir={cache}"], "constructs")
    if asked.returncode:
        pytest.skip(f"no package index answers here: {asked.stderr.strip().splitlines()[-1]}")


def with_wheels(file: Path) -> str:
    """The requirements of a file, without what it includes and what is built from source."""
    text = file.read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.partition("==")[0] not in SOURCE_ONLY]
    return "\n".join(line for line in lines if not line.startswith("-r"))


@pytest.mark.usefixtures("_index")
@pytest.mark.parametrize("machine", MACHINES)
def test_every_requirement_has_a_wheel(machine: str) -> None:
    names = ("requirements.txt", "requirements-dev.txt")
    wanted = "\n".join(with_wheels(ROOT / name) for name in names)
    locked = with_wheels(ROOT / "longhaul/runner/requirements.lock")
    of_spark = next(line for line in locked.splitlines() if line.startswith("py4j=="))

    asked = answer(
        [
            *(*_UV, "--only-binary=:all:", "--python-version=3.11"),
            f"--python-platform={MACHINES[machine]}",
        ],
        f"{wanted}\n{of_spark.partition(' ')[0]}",
    )

    assert asked.returncode == 0, asked.stderr
    found = {line.partition("==")[0] for line in asked.stdout.splitlines()}
    assert {"botocore", "py4j"} < found
    assert ("awslambdaric" in found) == (machine in LINUX)
