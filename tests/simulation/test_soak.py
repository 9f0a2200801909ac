"""Soaks: what happens to them when a worker dies."""

import os
import signal
from pathlib import Path

import pytest

from simulation.tools import soak
from simulation.tools.soak import Chunk, Source


def run_until_killed(chunk: tuple[Source, int, int]) -> Chunk:
    """As the kernel does to a worker when the memory is full."""
    if chunk[1] >= 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return Chunk(20, 20, 3_600.0, [])


def run_well(chunk: tuple[Source, int, int]) -> Chunk:
    return Chunk(chunk[2] - chunk[1], 20, 3_600.0, [])


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = f"--state={tmp_path / 'soak.json'}"
    monkeypatch.setattr("sys.argv", ["soak", "--worlds=60", "--processes=1", state])


@pytest.mark.usefixtures("arguments")
def test_soak_whose_worker_was_killed_fails_and_the_same_command_continues(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(soak, "run_chunk", run_until_killed)

    assert soak.main() == soak.WORKER_DIED

    ended = capsys.readouterr()
    assert "a worker was killed" in ended.err
    assert "the same command continues" in ended.err
    assert ended.out.startswith("worlds=20 ")
    monkeypatch.setattr(soak, "run_chunk", run_well)
    assert soak.main() == 0
    assert "continuing after 20 worlds" in capsys.readouterr().err


def test_soak_of_single_faults_has_each_scenario_with_each_of_them() -> None:
    singles = Source("single")

    assert singles.units(0) > 10_000
    plans = [plan for unit in range(50) for plan in singles.plans(unit)]
    assert {len(plan.faults or ()) for plan in plans} == {1}
    assert len(set(plans)) == len(plans)
