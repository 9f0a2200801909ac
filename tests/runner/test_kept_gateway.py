"""How a warm JVM is ended by a process that is not its parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from longhaul.runner.spark import kept
from longhaul.runner.spark.gateway import ENDED
from longhaul.runner.spark.kept import KeptGateway

SLEEPING = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def jvm() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(SLEEPING, stdout=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def gateway(jvm: "subprocess.Popen[bytes]", tmp_path: Path) -> Iterator[KeptGateway]:
    assert jvm.stdout
    found = KeptGateway(tmp_path, jvm.pid, os.dup(jvm.stdout.fileno()), is_used=False)
    yield found
    found._output.close()


def test_whoever_stops_it_goes_on_only_when_its_parent_knows_that_it_has_ended(
    jvm: "subprocess.Popen[bytes]",
    gateway: KeptGateway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept, "_CODE_WAIT_S", 120)  # a busy machine is no failure

    def tell() -> None:
        code = jvm.wait()
        time.sleep(0.3)  # a parent that is slow to hear
        (tmp_path / ENDED).write_text(str(code))

    parent = threading.Thread(target=tell)
    parent.start()

    gateway.stop()

    assert (tmp_path / ENDED).read_text() == str(-signal.SIGKILL)
    parent.join()


def test_it_is_killed_also_when_a_process_that_it_started_has_just_ended(
    jvm: "subprocess.Popen[bytes]",
    gateway: KeptGateway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen(SLEEPING) as gone:
        ended = psutil.Process(gone.pid)
        gone.kill()
    monkeypatch.setattr(gateway._process, "children", lambda **_: [ended])
    (tmp_path / ENDED).write_text("137")

    gateway.stop()

    assert jvm.wait(10) == -signal.SIGKILL
