"""The base image by its digest. No registry is asked here: the commands' answers are played."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from longhaul.cli import pin_base
from longhaul.cli.checks.finding import Level

DIGEST = "sha256:" + "0123456789abcdef" * 4
TAG = "public.ecr.aws/docker/library/python:3.13.9-slim-trixie"


@pytest.fixture
def dockerfile(tmp_path: Path) -> Path:
    file = tmp_path / "Dockerfile"
    file.write_text(f"# comment\nARG PYTHON_IMAGE={TAG}\nFROM ${{PYTHON_IMAGE}}\n")
    return file


def test_the_registrys_digest_is_written_behind_the_tag(dockerfile: Path) -> None:
    asked: list[Sequence[str]] = []

    def ask(command: Sequence[str]) -> str:
        asked.append(command)
        return f"{DIGEST}\n"

    assert pin_base.pin(dockerfile, ask) == f"{TAG}@{DIGEST}"
    expected = f"# comment\nARG PYTHON_IMAGE={TAG}@{DIGEST}\nFROM ${{PYTHON_IMAGE}}\n"
    assert dockerfile.read_text() == expected
    assert asked[0][1:] == (
        ["buildx", "imagetools", "inspect", TAG, "--format", "{{.Manifest.Digest}}"]
    )


def test_a_pinned_base_is_asked_for_again_by_its_tag(dockerfile: Path) -> None:
    other = DIGEST.replace("0", "f")
    pin_base.pin(dockerfile, lambda _: other)
    assert pin_base.pin(dockerfile, lambda _: DIGEST) == f"{TAG}@{DIGEST}"
    assert other not in dockerfile.read_text()


@pytest.mark.parametrize("answer", ["", "sha256:short", "<no value>", "manifest unknown"])
def test_an_answer_that_is_no_digest_changes_nothing(dockerfile: Path, answer: str) -> None:
    before = dockerfile.read_text()
    with pytest.raises(ValueError, match="is no digest"):
        pin_base.pin(dockerfile, lambda _: answer)
    assert dockerfile.read_text() == before


def test_the_preflight_warns_while_the_base_has_no_digest(dockerfile: Path) -> None:
    (finding,) = pin_base.check(None, dockerfile)
    assert (finding.level, TAG in finding.what) == (Level.WARNING, True)
    assert "make pin-base" in finding.do
    pin_base.pin(dockerfile, lambda _: DIGEST)
    assert [each.level for each in pin_base.check(None, dockerfile)] == [Level.OK]


def test_a_project_is_sent_to_its_settings_and_not_to_the_checkout(
    dockerfile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pin_base, "chosen", object)
    (finding,) = pin_base.check(None, dockerfile)
    assert "python_image" in finding.do
    assert "make pin-base" not in finding.do


def test_a_base_of_ones_own_is_named_with_its_digest_too() -> None:
    (finding,) = pin_base.check("mine:3.13")
    assert (finding.level, "python_image" in finding.do) == (Level.WARNING, True)
    assert [each.level for each in pin_base.check(f"mine@{DIGEST}")] == [Level.OK]


def test_the_repositorys_dockerfile_names_a_base() -> None:
    assert pin_base.base_of(pin_base.DOCKERFILE).startswith(f"{TAG.partition(':')[0]}:3.13")
