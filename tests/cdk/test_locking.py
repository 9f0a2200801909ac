"""The locks of the pins: pip's answers are played, and the files in the repository are compared."""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from longhaul.cdk import layer
from longhaul.cdk.locking import LOCKED, LockError, lock, pins
from tests.cdk.test_layer import locking, wheel_of
from tests.layers import ROOT


class Index:
    """Answers as pip does for an index with these packages."""

    def __init__(self, versions: dict[str, str], *, arm: dict[str, str] | None = None) -> None:
        self.versions = {"x86_64": versions, "aarch64": {**versions, **(arm or {})}}
        self.asked: list[Sequence[str]] = []

    def __call__(self, arguments: Sequence[str]) -> str:
        self.asked.append(arguments)
        if arguments[0] == "download":
            self._download(arguments)
            return ""
        machine = "aarch64" if any("aarch64" in each for each in arguments) else "x86_64"
        return json.dumps(
            {"install": [self._file(*each, machine) for each in self.versions[machine].items()]}
        )

    def _file(self, name: str, version: str, machine: str) -> dict[str, object]:
        digest = hashlib.sha256(f"{name} {version} {machine}".encode()).hexdigest()
        return {
            "metadata": {"name": name, "version": version},
            "download_info": {"archive_info": {"hashes": {"sha256": digest}}},
        }

    def _download(self, arguments: Sequence[str]) -> None:
        (folder,) = (each for each in arguments if each.startswith("--dest="))
        with tarfile.open(Path(folder.removeprefix("--dest=")) / "p-1.tar.gz", "w:gz") as file:
            said = b"Name: pyspark\nRequires-Dist: py4j<0.11\nRequires-Dist: x; extra == 'sql'\n"
            member = tarfile.TarInfo("pyspark-1/PKG-INFO")
            member.size = len(said)
            file.addfile(member, io.BytesIO(said))


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    file = tmp_path / "requirements.txt"
    file.write_text("# why\nBoto3==1.44.5  # the SDK\n")
    return file


def test_every_package_is_locked_with_the_files_of_both_architectures(requirements: Path) -> None:
    text = lock(requirements, Index({"boto3": "1.44.5", "Botocore": "1.44.5"}))

    assert re.findall(r"^(\S+)==(\S+) ", text, re.MULTILINE) == [
        ("boto3", "1.44.5"),
        ("botocore", "1.44.5"),
    ]
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", text)) == 4


def test_a_source_archive_is_locked_with_its_own_hash_and_what_it_requires(
    requirements: Path,
) -> None:
    requirements.write_text("pyspark==4.3.0\n")
    index = Index({"py4j": "0.10.9"})

    text = lock(requirements, index)

    assert re.findall(r"^(\S+)==", text, re.MULTILINE) == ["py4j", "pyspark"]
    wheels = [arguments for arguments in index.asked if arguments[0] == "install"]
    assert len(wheels) == 2
    assert {arguments[-1] for arguments in wheels} == {"py4j<0.11"}


def test_versions_that_differ_between_the_architectures_are_refused(requirements: Path) -> None:
    with pytest.raises(LockError, match=r"boto3 would be .* pin it"):
        lock(requirements, Index({"boto3": "1.44.5"}, arm={"boto3": "1.44.4"}))


def test_a_requirement_without_a_version_is_refused(requirements: Path) -> None:
    requirements.write_text("boto3>=1\n")
    with pytest.raises(LockError, match="boto3>=1 is no pin"):
        lock(requirements, Index({}))


@pytest.mark.parametrize("name", LOCKED)
def test_the_locks_in_the_repository_hold_what_is_pinned(name: str) -> None:
    text = (ROOT / name).with_suffix(".lock").read_text()
    locked = dict(re.findall(r"^(\S+)==(\S+) \\$", text, re.MULTILINE))

    assert pins(ROOT / name).items() <= locked.items(), "run `make lock`"
    entries = [each for each in re.split(r"\n(?=\S)", text) if not each.startswith("#")]
    assert len(entries) == len(locked)
    assert all("--hash=sha256:" in entry for entry in entries)


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


def test_a_wheel_that_is_not_the_locked_one_is_refused(tmp_path: Path) -> None:
    repository = locking(tmp_path, f"{wheel_of(tmp_path, {})} --hash=sha256:{'0' * 64}")

    with pytest.raises(layer.LayerError, match="DO NOT MATCH THE HASHES"):
        layer.build(repository, "arm64")
