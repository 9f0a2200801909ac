import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from longhaul.cli import synth as synthesis
from longhaul.cli.synth import SynthError, WrongSettingsError, kept_synth, synth
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


def test_an_assembly_is_kept_until_what_it_is_made_of_changes(
    tmp_path: Path, synthesized: list[Path]
) -> None:
    project = make_project(tmp_path / "p")
    given: dict[str, Any] = {"longhaul": {"stages": [{"name": "main"}]}}

    def again(context: dict[str, Any] | None = None) -> bool:
        before, begun = len(synthesized), []
        kept_synth(
            tmp_path / "out",
            context=context or given,
            project=project.folder,
            begins=lambda: begun.append(1),
        )
        assert len(begun) == len(synthesized) - before
        return bool(begun)

    assert again()
    assert not again()
    job = project.jobs / "count_rows.py"
    job.write_text(job.read_text() + "# the next attempt runs it from here\n")
    assert not again()
    assert again({"longhaul": {"stages": [{"name": "other"}]}})
    assert again()
    (project.jobs / "second.py").write_text("def run(spark, job): ...\n")
    assert again(), "the dispatcher knows the names of the jobs"
    project.file.write_text(f"{project.text}\n# changed\n")
    assert again()
    assert not again()


def test_a_change_of_our_own_code_or_of_the_cdk_is_synthesized(
    tmp_path: Path, synthesized: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (code := tmp_path / "checkout" / "longhaul").mkdir(parents=True)
    (code / "a.py").write_text("A = 1\n")
    monkeypatch.setattr(synthesis, "sources", lambda: tmp_path / "checkout")
    monkeypatch.setattr(synthesis, "demo", lambda: None)
    out = tmp_path / "out"
    for expected in (1, 1):
        kept_synth(out, context={}, project=None)
        assert len(synthesized) == expected
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "a.pyc").write_text("compiled")
    kept_synth(out, context={}, project=None)
    assert len(synthesized) == 1
    (code / "a.py").write_text("A = 2\n")
    kept_synth(out, context={}, project=None)
    assert len(synthesized) == 2
    monkeypatch.setattr(synthesis, "version", lambda name: f"{name} 99")
    kept_synth(out, context={}, project=None)
    assert len(synthesized) == 3
    monkeypatch.setattr(synthesis, "own_version", lambda: "99")  # an output of the template
    kept_synth(out, context={}, project=None)
    assert len(synthesized) == 4


def test_an_assembly_whose_removal_is_interrupted_is_not_kept(
    tmp_path: Path, synthesized: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"longhaul": {"stages": [{"name": "main"}]}}
    out = kept_synth(tmp_path / "out", context=given, project=None)
    (out / "asset").touch()

    def interrupted(folder: Path, **_: Any) -> None:
        (folder / "asset").unlink(missing_ok=True)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            kept_synth(out, context={}, project=None)
    kept_synth(out, context=given, project=None)  # as before the change
    assert len(synthesized) == 2


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


def test_error_of_the_app_is_in_the_message(tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps({"longhaul": {"no_such_setting": 1}}))

    with pytest.raises(WrongSettingsError, match=r"^longhaul\.no_such_setting: "):
        synth(tmp_path / "cdk.out", profile=profile)
