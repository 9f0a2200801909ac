"""The locks: what the layer, the image and the machines install, with hashes."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from longhaul.cdk import layer
from tests.layers import ROOT

LOCKED = (
    "functions/requirements.txt",
    "longhaul/runner/requirements.txt",
    "longhaul/runner/build-requirements.txt",
    "requirements.txt",
    "requirements-dev.txt",
    "docs/requirements.txt",
)
_PIN = re.compile(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;]+)", re.MULTILINE)


def pins(requirements: Path) -> dict[str, str]:
    """Package → version. Each line of the file has to be a pin."""
    lines = (line.partition("#")[0].strip() for line in requirements.read_text().splitlines())
    found = [line.lower() for line in lines if line and not line.startswith("-r ")]
    assert all(map(_PIN.match, found))
    return dict(_PIN.findall("\n".join(found)))


@pytest.mark.parametrize("name", LOCKED)
def test_the_locks_in_the_repository_hold_what_is_pinned(name: str) -> None:
    text = (ROOT / name).with_suffix(".lock").read_text()
    locked = dict(_PIN.findall(text))

    assert pins(ROOT / name).items() <= locked.items(), "run `make lock`"
    entries = [each for each in re.split(r"\n(?=\S)", text) if not each.startswith("#")]
    assert len(entries) == len(_PIN.findall(text))
    assert all("--hash=sha256:" in entry for entry in entries)


def test_make_locks_for_the_python_and_the_architectures_of_the_layer() -> None:
    (recipe,) = re.findall(
        r"^lock:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE
    )

    assert f"--python-version {layer.PYTHON_VERSION} " in recipe
    assert f"$$machine-{layer.GLIBC[0]} " in recipe
    (machines,) = re.findall(r"for machine in ([\w ]+);", recipe)
    assert set(machines.split()) == set(layer.MACHINE.values())


@pytest.mark.slow
def test_make_lock_changes_nothing_where_no_pin_has_moved(tmp_path: Path) -> None:
    files = [name for each in LOCKED for name in (each, each.replace(".txt", ".lock"))]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    command = ["make", "--file", ROOT / "Makefile", "--assume-old", ".venv/.set-up-dev", "lock"]

    subprocess.run([*command, f"BIN={ROOT / '.venv' / 'bin'}"], cwd=tmp_path, check=True)

    for name in files:
        assert (tmp_path / name).read_text() == (ROOT / name).read_text()


def test_the_image_installs_from_the_locks_alone() -> None:
    lines = (ROOT / "longhaul/runner/Dockerfile").read_text().replace("\\\n", " ").splitlines()
    installs = [part for line in lines for part in line.split("&&") if "pip install" in part]

    assert len(installs) == 2
    for each in installs:
        assert "--require-hashes" in each
        assert "--no-deps" in each
        assert ".lock" in each
    # Else pip would fetch what builds a source archive without looking at hashes.
    assert "--no-build-isolation" in installs[1]
