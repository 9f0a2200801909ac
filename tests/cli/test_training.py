"""The cache that is made in the background."""

import sys

import psutil
import pytest

from longhaul.cli.local import training
from longhaul.cli.local.training import BackgroundTraining


def test_training_runs_in_the_background_and_ends_with_its_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endless = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(training, "_COMMAND", endless)
    before = set(psutil.Process().children())
    with BackgroundTraining() as endless_one:
        (child,) = set(psutil.Process().children()) - before
        assert child.is_running()
        assert endless_one.is_at_work
    assert set(psutil.Process().children()) == before
