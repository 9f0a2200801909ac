"""The AOT cache: whose it is, and that Spark starts without it."""

import fcntl
import importlib
import logging
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from longhaul.runner.resources import Resources
from longhaul.runner.spark import aot_training, imports, jvm
from longhaul.runner.spark.gateway import Gateway
from longhaul.runner.spark.jvm import LIGHTER, class_path, is_left_out, make_copies, spark_home
from tests.layers import ROOT
from tests.patience import DEADLINE_S

RESOURCES = Resources(cores=2, memory_mib=2048)


@pytest.fixture
def installation(tmp_path: Path) -> tuple[Path, list[Path]]:
    """A JVM and jars, as far as the name of their cache is concerned."""
    files = [tmp_path / name for name in ("java", "a.jar", "b.jar")]
    for file in files:
        file.write_bytes(b"x")
    return files[0], files[1:]


def test_a_cache_belongs_to_one_jvm_one_class_path_and_one_set_of_flags(
    installation: tuple[Path, list[Path]],
) -> None:
    java, jars = installation
    paths = [jvm.path_of_cache(java, jars, ["-XX:+A"])]
    assert jvm.path_of_cache(java, jars, ["-XX:+A"]) == paths[0]
    paths.append(jvm.path_of_cache(java, jars, ["-XX:+B"]))
    paths.append(jvm.path_of_cache(java, jars[:1], ["-XX:+A"]))
    jars[1].write_bytes(b"xy")
    paths.append(jvm.path_of_cache(java, jars, ["-XX:+A"]))
    java.write_bytes(b"another JVM")
    paths.append(jvm.path_of_cache(java, jars, ["-XX:+A"]))
    assert len(set(paths)) == len(paths)


def test_a_cache_is_used_if_it_exists_and_fits_the_heap(tmp_path: Path) -> None:
    there = tmp_path / "spark.aot"
    assert jvm.use_cache(there, 2048) == []
    there.touch()
    assert f"-XX:AOTCache={there}" in jvm.use_cache(there, 2048)
    assert jvm.use_cache(there, 64 * 1024) == []


def test_the_parallel_collector_is_for_several_cores_and_small_heaps(tmp_path: Path) -> None:
    chosen = {
        task: "-XX:+UseParallelGC" in jvm.command(task, tmp_path, aot=[])
        for task in (RESOURCES, Resources(1, 4096), Resources(16, 98_304))
    }

    assert chosen == {RESOURCES: True, Resources(1, 4096): False, Resources(16, 98_304): False}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty", marks=pytest.mark.slow),  # the same without a header to read
        pytest.param(b"garbage" * 100_000, id="garbage"),
    ],
)
def test_a_jvm_starts_without_a_cache_that_is_damaged(tmp_path: Path, content: bytes) -> None:
    damaged = tmp_path / "spark.aot"
    damaged.write_bytes(content)
    gateway = Gateway(tmp_path, RESOURCES, aot=jvm.use_cache(damaged, RESOURCES.heap_mib))
    try:
        gateway.attach(DEADLINE_S)
        assert gateway.is_alive
    finally:
        gateway.stop()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the cache goes, instead of this installation's own."""
    place = tmp_path / "cache" / "spark-1.aot"
    monkeypatch.setattr(aot_training, "cache_path", lambda: place)
    monkeypatch.setattr(aot_training, "cache_folder", lambda: place.parent)
    monkeypatch.setattr(jvm, "make_copies", lambda: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return place


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Training without a JVM, which takes a minute: a file is written, and is taken by the JVM."""
    made: list[Path] = []

    def train(path: Path, _folder: Path) -> None:
        path.write_bytes(b"cache")
        made.append(path)

    monkeypatch.setattr(aot_training, "_train", train)
    monkeypatch.setattr(aot_training, "_check", lambda *_: None)
    return made


def test_a_cache_appears_whole_and_replaces_those_of_other_installations(
    place: Path, trained: list[Path]
) -> None:
    place.parent.mkdir()
    other = place.with_name("spark-2.aot")
    other.touch()
    (place.parent / "building-interrupted").mkdir()

    assert aot_training.main() == 0

    assert trained[0] != place
    assert place.read_bytes() == b"cache"
    assert sorted(file.name for file in place.parent.iterdir()) == ["lock", "spark-1.aot"]


def test_an_existing_cache_is_not_made_again(place: Path, trained: list[Path]) -> None:
    place.parent.mkdir()
    place.write_bytes(b"made before")

    assert aot_training.main() == 0

    assert (place.read_bytes(), trained) == (b"made before", [])


def test_of_two_that_make_a_cache_at_once_one_leaves(place: Path, trained: list[Path]) -> None:
    place.parent.mkdir()
    with (place.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert aot_training.main() == 0
    assert trained == []
    assert not place.exists()


def test_a_cache_that_the_jvm_refuses_is_not_kept(
    place: Path, trained: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Path) -> None:
        raise aot_training.TrainingError("no")

    monkeypatch.setattr(aot_training, "_check", refuse)

    assert aot_training.main() == 1

    assert len(trained) == 1
    assert [file.name for file in place.parent.iterdir()] == ["lock"]


def test_a_check_that_takes_too_long_is_said_in_a_sentence(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A traceback would quote the command, whose class path alone is a page."""
    monkeypatch.setattr(aot_training, "_train", lambda path, _folder: path.write_bytes(b"cache"))
    # It gets `-version` as one more word.
    sleep = [sys.executable, "-c", "import time; time.sleep(60)", "Main"]
    monkeypatch.setattr(aot_training, "command", lambda *_, **__: sleep)
    monkeypatch.setattr(aot_training, "_CHECK_LIMIT_S", 0.1)

    with caplog.at_level(logging.INFO):
        assert aot_training.main() == 1

    assert caplog.records[-1].getMessage() == (
        "no AOT cache: the JVM did not check the cache within 0.1 s"
    )
    assert [file.name for file in place.parent.iterdir()] == ["lock"]


def test_the_image_copies_every_module_of_the_training(tmp_path: Path) -> None:
    steps = (ROOT / "longhaul/runner/Dockerfile").read_text()
    for line in re.findall(r"^COPY (.+ /opt/aot/.+)$", steps, re.MULTILINE):
        *sources, target = line.split()
        place = tmp_path / Path(target).relative_to("/opt/aot")
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place)
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, place)

    # The second module is imported when it is needed.
    code = "from longhaul.runner import slimming; from longhaul.runner.spark import aot_training; "
    code += "print(aot_training.__file__)"
    # -S: the installation in this environment would find what was not copied.
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": sysconfig.get_path("purelib")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)


@pytest.mark.slow
def test_a_real_cache_is_accepted_whole_and_refused_with_a_wrong_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process of its own: PySpark has one context in a process, perhaps that of other tests.
    code = "import sys; from pathlib import Path; "
    code += "from longhaul.runner.spark import aot_training; "
    code += "aot_training.make(Path(sys.argv[1]) / 'spark.aot')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True)
    (made,) = tmp_path.glob("*.aot")
    for cores in (1, 2):  # another collector reads it too
        assert _starts(made, "-XX:AOTMode=on", cores=cores).returncode == 0

    content = bytearray(made.read_bytes())
    cut_off = tmp_path / "cut-off"
    cut_off.write_bytes(content[: len(content) // 2])
    assert _starts(cut_off, "-XX:AOTMode=on").returncode != 0
    assert _starts(cut_off).returncode == 0

    content[len(content) // 2] ^= 0xFF
    monkeypatch.setattr(aot_training, "_train", lambda path, _folder: path.write_bytes(content))
    with pytest.raises(aot_training.TrainingError, match="does not take"):
        aot_training.make(tmp_path / "again.aot")
    assert not (tmp_path / "again.aot").exists()


def _starts(cache: Path, *more: str, cores: int = 2) -> "subprocess.CompletedProcess[bytes]":
    task = Resources(cores, memory_mib=2048)
    *start, _ = jvm.command(task, cache.parent, aot=[*jvm.use_cache(cache, task.heap_mib), *more])
    return subprocess.run(
        [*start, "-version"], capture_output=True, timeout=DEADLINE_S, check=False
    )


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
