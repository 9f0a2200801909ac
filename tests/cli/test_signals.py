import subprocess
import sys

from tests.patience import DEADLINE_S

HANGS = """
from threading import Event
from longhaul.cli.terminal.signals import ends_within, stop_signals
import os, signal

with stop_signals() as at_stop:
    stopping = Event()
    at_stop(ends_within(0.1, stopping))
    os.kill(os.getpid(), signal.SIGINT)
    stopping.wait()
    Event().wait()
"""


def test_a_stop_that_hangs_ends_all_the_same_and_shows_where() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 1
    assert 'File "<string>", line 11 in <module>' in done.stderr
