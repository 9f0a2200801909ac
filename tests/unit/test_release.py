"""`make release`, in a small repository with a stand-in for Python."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.layers import ROOT

RELEASED = "# Changelog\n\n## 1.2.0 (2026-12-01)\n"
PYTHON = r"""#!/bin/sh
case "$1" in
  -c) echo 1.2.0 ;;
  -m) mkdir -p build/venv/bin dist
      printf '#!/bin/sh\ntouch dist/longhaul_jobs-1.2.0.whl' > build/venv/bin/pip
      chmod +x build/venv/bin/pip ;;
esac
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "somebody@example.com")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    (tmp_path / "requirements.lock").touch()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "CHANGELOG.md").write_text(RELEASED)
    (tmp_path / ".gitignore").write_text(".venv\ndist\n")
    shutil.copy(ROOT / "Makefile", tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    (tmp_path / ".venv" / ".set-up").touch()
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=folder, text=True)  # noqa: S607 - on PATH


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "a change")


def release(folder: Path) -> tuple[bool, str]:
    done = subprocess.run(
        ["make", "release", "PYTHON=.venv/bin/python"],  # noqa: S607 - on PATH
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0, done.stdout


def test_release_builds_the_wheel_and_tags_the_commit(repository: Path) -> None:
    done, said = release(repository)
    assert done
    assert "git push origin v1.2.0" in said
    assert git(repository, "tag", "--points-at", "HEAD") == "v1.2.0\n"
    assert (repository / "dist" / "longhaul_jobs-1.2.0.whl").exists()


def test_version_without_a_dated_heading_is_not_released(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text("## 1.2.0 (unreleased)\n\n## 1.1.0 (2026-11-01)\n")
    commit(repository)
    done, said = release(repository)
    assert not done
    assert "no heading '## 1.2.0 (YYYY-MM-DD)'" in said
    assert git(repository, "tag") == ""


def test_files_that_are_not_committed_are_not_released(repository: Path) -> None:
    (repository / "new.py").touch()
    done, said = release(repository)
    assert (done, "commit first" in said, git(repository, "tag")) == (False, True, "")


def test_version_is_released_once(repository: Path) -> None:
    release(repository)
    (repository / "new.py").touch()
    commit(repository)
    done, said = release(repository)
    assert not done
    assert "raise the version in pyproject.toml" in said
    assert git(repository, "tag", "--points-at", "HEAD") == ""


# `make pin-base`. No registry is asked here: what Docker would say is played.


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
