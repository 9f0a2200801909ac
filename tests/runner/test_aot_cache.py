"""The AOT cache: whose it is, and that Spark starts without it."""

import fcntl
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from longhaul.runner.resources import Resources
from longhaul.runner.spark import aot_training, jvm
from longhaul.runner.spark.gateway import Gateway
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


def test_a_jvm_starts_without_a_cache_that_is_damaged(tmp_path: Path) -> None:
    damaged = tmp_path / "spark.aot"
    damaged.write_bytes(b"garbage" * 100_000)
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
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return place


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Training without a JVM, which takes a minute: a file is written."""
    made: list[Path] = []

    def train(path: Path, _folder: Path) -> None:
        path.write_bytes(b"cache")
        made.append(path)

    monkeypatch.setattr(aot_training, "_train", train)
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


def test_where_the_jvm_writes_no_cache_there_is_none(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Path) -> None:
        raise aot_training.TrainingError("no")

    monkeypatch.setattr(aot_training, "_train", fail)

    assert aot_training.main() == 1

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

    code = "from longhaul.runner.spark import aot_training; print(aot_training.__file__)"
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
def test_a_real_cache_is_accepted_and_one_that_is_cut_off_does_no_harm(tmp_path: Path) -> None:
    # A process of its own: PySpark has one context in a process, perhaps that of other tests.
    code = "import sys; from pathlib import Path; "
    code += "from longhaul.runner.spark import aot_training; "
    code += "aot_training.make(Path(sys.argv[1]) / 'spark.aot')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True)
    (made,) = tmp_path.glob("*.aot")
    for cores in (1, 2):  # another collector reads it too
        assert _starts(made, "-XX:AOTMode=on", cores=cores).returncode == 0

    cut_off = tmp_path / "cut-off"
    cut_off.write_bytes(made.read_bytes()[: made.stat().st_size // 2])
    assert _starts(cut_off, "-XX:AOTMode=on").returncode != 0
    assert _starts(cut_off).returncode == 0


def _starts(cache: Path, *more: str, cores: int = 2) -> "subprocess.CompletedProcess[bytes]":
    task = Resources(cores, memory_mib=2048)
    *start, _ = jvm.command(task, cache.parent, aot=[*jvm.use_cache(cache, task.heap_mib), *more])
    return subprocess.run(
        [*start, "-version"], capture_output=True, timeout=DEADLINE_S, check=False
    )
