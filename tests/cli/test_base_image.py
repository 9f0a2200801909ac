"""The base image by its digest. No registry is asked here: what Docker would say is played."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from longhaul.cli.checks import base_image
from longhaul.cli.checks.finding import Finding, Level
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


def found(named: str | None, dockerfile: Path) -> list[Finding]:
    plan: Any = SimpleNamespace(settings=SimpleNamespace(python_image=named))
    return list(base_image.base_image(plan, dockerfile))


def test_a_base_without_a_digest_is_a_warning(dockerfile: Path) -> None:
    (finding,) = found(None, dockerfile)
    assert (finding.level, TAG in finding.what) == (Level.WARNING, True)
    assert "make pin-base" in finding.do
    dockerfile.write_text(f"ARG PYTHON_IMAGE={TAG}@{DIGEST}\n")
    assert [each.level for each in found(None, dockerfile)] == [Level.OK]


def test_a_project_is_sent_to_its_settings_and_not_to_the_checkout(
    dockerfile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_image, "chosen", object)
    (finding,) = found(None, dockerfile)
    assert "python_image" in finding.do
    assert "make pin-base" not in finding.do


def test_a_base_of_ones_own_is_named_with_its_digest_too() -> None:
    (finding,) = found("mine:3.13", base_image.DOCKERFILE)
    assert (finding.level, "python_image" in finding.do) == (Level.WARNING, True)
    assert [each.level for each in found(f"mine@{DIGEST}", base_image.DOCKERFILE)] == [Level.OK]


def test_the_repositorys_dockerfile_names_a_base() -> None:
    assert base_image.base_of(base_image.DOCKERFILE).startswith(f"{TAG.partition(':')[0]}:3.13")
