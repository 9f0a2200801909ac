"""`make pin-base`. No registry is asked here: what Docker would say is played."""

import subprocess
from pathlib import Path

import pytest

from tests.layers import ROOT

DIGEST = "sha256:" + "0123456789abcdef" * 4
TAG = "public.ecr.aws/docker/library/python:3.13.9-slim-trixie"
TEXT = f"# comment\nARG PYTHON_IMAGE={TAG}\nFROM ${{PYTHON_IMAGE}}\n"


@pytest.fixture
def dockerfile(tmp_path: Path) -> Path:
    file = tmp_path / "longhaul" / "runner" / "Dockerfile"
    file.parent.mkdir(parents=True)
    file.write_text(TEXT)
    return file


def pin(folder: Path, answer: str) -> int:
    """`make pin-base`, with a Docker that says this where it is asked for the tag alone."""
    docker = folder / "docker"
    docker.write_text(
        "#!/bin/sh\n"
        f'test "$*" = "buildx imagetools inspect {TAG} --format {{{{.Manifest.Digest}}}}"'
        f" && echo '{answer}'\n"
    )
    docker.chmod(0o755)
    pinned = ["make", "-f", str(ROOT / "Makefile"), "pin-base", f"CDK_DOCKER={docker}"]
    return subprocess.run(pinned, cwd=folder, check=False).returncode


def test_the_digest_is_written_behind_the_tag_also_of_a_pinned_base(
    dockerfile: Path, tmp_path: Path
) -> None:
    for digest in (DIGEST.replace("0", "f"), DIGEST):
        assert pin(tmp_path, digest) == 0
        assert dockerfile.read_text() == TEXT.replace(TAG, f"{TAG}@{digest}")


@pytest.mark.parametrize("answer", ["", "sha256:short", "<no value>", "manifest unknown"])
def test_an_answer_that_is_no_digest_changes_nothing(
    dockerfile: Path, tmp_path: Path, answer: str
) -> None:
    assert pin(tmp_path, answer) != 0
    assert dockerfile.read_text() == TEXT


def test_the_repositorys_dockerfile_names_a_base() -> None:
    named = (ROOT / "longhaul" / "runner" / "Dockerfile").read_text()
    assert f"\nARG PYTHON_IMAGE={TAG.partition(':')[0]}:3.13" in named
