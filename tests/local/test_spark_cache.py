"""The cache that is made in the background."""

import sys
from pathlib import Path

import psutil
import pytest

from local import spark_cache
from local.spark_cache import BackgroundTraining


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the cache is looked for; the training is a process that takes long."""
    place = tmp_path / "spark.aot"
    monkeypatch.setattr(spark_cache, "cache_path", lambda: place)
    monkeypatch.setattr(spark_cache, "_COMMAND", [sys.executable, "-c", "import time; time.sleep(600)"])
    return place


@pytest.mark.usefixtures("place")
def test_training_runs_in_the_background_and_ends_with_its_block() -> None:
    before = set(psutil.Process().children())
    with BackgroundTraining():
        (training,) = set(psutil.Process().children()) - before
        assert training.is_running()
    assert set(psutil.Process().children()) == before


def test_nothing_is_started_when_the_cache_is_there(place: Path) -> None:
    place.touch()
    before = set(psutil.Process().children())
    with BackgroundTraining():
        assert set(psutil.Process().children()) == before
