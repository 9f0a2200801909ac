"""The lighter copies on the class path, and what jobs get nevertheless."""

import importlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from longhaul.runner.spark import imports, jvm
from longhaul.runner.spark.jvm import LIGHTER, class_path, is_left_out, make_copies, spark_home
from tests.layers import ROOT

_LIMIT_S = 300


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jvm, "cache_folder", lambda: tmp_path)
    return tmp_path / "jars"


def installed() -> list[Path]:
    return sorted((spark_home() / "jars").glob("*.jar"))


def entries(jar: Path) -> dict[str, int]:
    """The CRC of each file."""
    with zipfile.ZipFile(jar) as packed:
        return {entry.filename: entry.CRC for entry in packed.infolist()}


def test_only_these_jars_have_something_to_leave_out() -> None:
    heavy = {jar.name for jar in installed() if any(map(is_left_out, entries(jar)))}
    assert heavy == {jar.name for pattern in LIGHTER for jar in jvm._jars().glob(pattern)}
    assert len(heavy) == len(LIGHTER)


def test_copies_take_the_place_of_their_jars_and_lack_nothing_else(cache: Path) -> None:
    assert class_path() == installed()

    make_copies()

    changed = {
        before: after
        for before, after in zip(installed(), class_path(), strict=True)
        if before != after
    }
    assert sorted(changed.values()) == sorted(cache.iterdir())
    assert len(changed) == len(LIGHTER)
    for before, after in changed.items():
        left_out = entries(before).keys() - entries(after).keys()
        assert left_out
        assert all(map(is_left_out, left_out))
        assert entries(after).items() <= entries(before).items()


def test_copies_are_made_once_and_again_for_another_jar(cache: Path) -> None:
    make_copies()
    first, second, *_ = sorted(cache.iterdir())
    old = cache / "janino-2.0.jar"
    old.touch()
    os.utime(first, (0, 0))  # of a jar of another date
    kept = second.stat()

    assert first not in class_path()
    make_copies()

    assert first in class_path()
    assert second.stat() == kept
    assert not old.exists()


class Jvm:
    """What a session gives of its JVM."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.java = SimpleNamespace(lang=SimpleNamespace(Class=self))

    def forName(self, name: str) -> None:  # noqa: N802 - Java's
        self.loaded.append(name)


def test_mllibs_functions_come_with_its_first_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.delitem(sys.modules, "pyspark.ml", raising=False)
    monkeypatch.setitem(sys.modules, "numpy", None)  # type: ignore[arg-type]  # as in the image
    jvm: Any = Jvm()
    imports.add_functions_when_imported(SimpleNamespace(_jvm=jvm))  # type: ignore[arg-type]  # all that it uses

    importlib.import_module("wave")
    assert jvm.loaded == []

    for _ in range(2):
        with pytest.raises(ImportError):  # it needs NumPy
            importlib.import_module("pyspark.ml")
    assert jvm.loaded == ["org.apache.spark.sql.ml.InternalFunctionRegistration$"]


def test_mllibs_functions_come_at_once_if_it_was_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setitem(sys.modules, "pyspark.ml", sys)
    jvm: Any = Jvm()
    imports.add_functions_when_imported(SimpleNamespace(_jvm=jvm))  # type: ignore[arg-type]  # as above
    assert len(jvm.loaded) == 1


@pytest.mark.slow
def test_a_real_jvm_runs_on_the_copies_and_has_the_functions_when_they_are_wanted(
    cache: Path,
) -> None:
    make_copies()
    done = subprocess.run(
        [sys.executable, "-m", "tests.runner.on_copies", str(cache.parent)],
        capture_output=True,
        cwd=ROOT,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.stdout.splitlines() == ["unsigned", "before: refused", "after: [[1.0, 2.0]]"], (
        done.stderr
    )
