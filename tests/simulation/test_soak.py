"""Soaks: what happens to them when a worker or the command itself dies."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from simulation.tools import soak
from simulation.tools.soak import Source
from simulation.worlds.run import Run
from simulation.worlds.systematic import LONG, PIPELINES, SCENARIOS, single_faults
from tests.local.support import eventually
from tests.patience import DEADLINE_S


def run_until_killed(source: Source, number: int) -> Run:
    """As the kernel does to a worker when the memory is full."""
    if number >= 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return run_well(source, number)


def run_well(_source: Source, _number: int) -> Run:
    return Run(None, 3_600.0, ())


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = f"--state={tmp_path / 'soak.json'}"
    monkeypatch.setattr("sys.argv", ["soak", "--worlds=60", "--processes=1", state])


@pytest.mark.slow
@pytest.mark.usefixtures("arguments")
def test_soak_whose_worker_was_killed_fails_and_the_same_command_continues(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(soak, "run_number", run_until_killed)

    assert soak.main() == soak.WORKER_DIED

    ended = capsys.readouterr()
    assert "a worker was killed" in ended.err
    assert "the same command continues" in ended.err
    assert ended.out.startswith("worlds=20 ")
    monkeypatch.setattr(soak, "run_number", run_well)
    assert soak.main() == 0
    assert "continuing after 20 worlds" in capsys.readouterr().err


@pytest.mark.slow
def test_soak_that_is_killed_leaves_no_worker_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "simulation.tools.soak", "--worlds=100000", "--processes=1"]
    with subprocess.Popen(
        [*command, f"--state={tmp_path / 'soak.json'}"], stderr=subprocess.DEVNULL
    ) as process:
        started = psutil.Process(process.pid)

        def busy() -> list[psutil.Process]:
            # Its imports take a second of CPU time. Worlds take the rest.
            return [each for each in started.children() if each.cpu_times().user > 2]

        workers = eventually(busy, "a worker that works", 60, every_s=0.1)
        process.kill()
    gone, left = psutil.wait_procs(workers, timeout=DEADLINE_S)
    assert (len(gone), left) == (1, [])


def test_soak_of_single_faults_has_each_scenario_with_each_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Of each kind one: their faults are found in worlds that run.
    long, short, pipeline = LONG[-1], "a job succeeds", "a fan-out is joined"
    monkeypatch.setattr(soak, "SCENARIOS", {name: SCENARIOS[name] for name in (long, short)})
    monkeypatch.setattr(soak, "PIPELINES", {pipeline: PIPELINES[pipeline]})

    plans = soak.singles.__wrapped__()

    assert plans == [*single_faults(SCENARIOS[short]), *single_faults(PIPELINES[pipeline])]
    assert {len(plan.faults or ()) for plan in plans} == {1}
    assert len(set(plans)) == len(plans) > 1_000
