from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longhaul.cli import synth as synthesis
from longhaul.cli.synth import SynthError, kept_synth, synth
from tests.projects import make_project


@pytest.fixture
def synthesized(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that were synthesized, without the minute that it takes."""
    folders: list[Path] = []

    def stand_in(folder: Path, **_: Any) -> Path:
        folder.mkdir(parents=True)
        folders.append(folder)
        return folder

    monkeypatch.setattr(synthesis, "synth", stand_in)
    return folders


Again = Callable[..., bool]


@pytest.fixture
def again(tmp_path: Path, synthesized: list[Path]) -> Again:
    """Asks for the assembly, and returns whether it was synthesized."""

    def asked(project: Path | None = None, **context: Any) -> bool:
        before = len(synthesized)
        kept_synth(tmp_path / "out", context={"longhaul": context}, project=project)
        return len(synthesized) > before

    return asked


def test_an_assembly_is_kept_until_what_it_is_made_of_changes(tmp_path: Path, again: Again) -> None:
    project = make_project(tmp_path / "p")
    assert again(project.folder)
    assert not again(project.folder)
    job = project.jobs / "count_rows.py"
    job.write_text(job.read_text() + "# the next attempt runs it from here\n")
    assert not again(project.folder)
    assert again(project.folder, stages=[{"name": "other"}])
    assert again(project.folder)
    (project.jobs / "second.py").write_text("def run(spark, job): ...\n")
    assert again(project.folder), "the dispatcher knows the names of the jobs"
    project.file.write_text(f"{project.text}\n# changed\n")
    assert again(project.folder)


def test_a_change_of_our_own_code_or_of_the_cdk_is_synthesized(
    tmp_path: Path, again: Again, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code := tmp_path / "checkout" / "longhaul").mkdir(parents=True)
    monkeypatch.setattr(synthesis, "sources", lambda: tmp_path / "checkout")
    monkeypatch.setattr(synthesis, "demo", lambda: None)
    assert again()
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "a.pyc").write_text("compiled")
    assert not again()
    (code / "a.py").write_text("A = 2\n")
    assert again()
    monkeypatch.setattr(synthesis, "version", lambda name: f"{name} 99")
    assert again()
    monkeypatch.setattr(synthesis, "own_version", lambda: "99")  # an output of the template
    assert again()


def test_temporary_files_of_an_app_that_is_ended_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os, tempfile; print(tempfile.mkdtemp(), flush=True); os.kill(os.getpid(), 9)"
    (tmp_path / "ended.py").write_text(code)
    monkeypatch.setattr(synthesis, "sources", lambda: tmp_path)
    monkeypatch.setattr(synthesis, "APP", "ended")

    with pytest.raises(SynthError, match="exit code -9") as raised:
        synth(tmp_path / "cdk.out")

    left = Path(str(raised.value).splitlines()[-1])
    assert left.is_absolute()
    assert not left.exists()
