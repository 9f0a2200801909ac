import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from longhaul.local.processes import ProcessGroup
from tests.local.support import eventually, process_runs

# A command with a child that ignores SIGTERM; both write their process id.
FAMILY = """
import os, signal, subprocess, sys, time
child = '''
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
'''
process = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE)
process.stdout.readline()
print(process.pid, flush=True)
if "stay" in sys.argv:
    time.sleep(600)
sys.exit(3)
"""


def start(tmp_path: Path, *arguments: str) -> tuple[ProcessGroup, Path]:
    log = tmp_path / "log"
    group = ProcessGroup(
        [sys.executable, "-c", FAMILY, *arguments],
        cwd=tmp_path,
        environment=dict(os.environ),
        log=log,
    )
    return group, log


def child_of(log: Path) -> int:
    return int(eventually(lambda: log.exists() and log.read_text().strip(), "the child is up"))


def test_end_of_the_command_ends_its_group(tmp_path: Path) -> None:
    group, log = start(tmp_path)

    assert group.wait() == 3

    assert not process_runs(child_of(log))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, 137)])
def test_death_by_a_signal_is_an_exit_code_as_of_a_container(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    group, log = start(tmp_path, "stay")
    child = child_of(log)

    group.send(number)

    assert group.wait() == code
    assert not process_runs(child)


def test_a_stopped_group_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from longhaul.local.processes import ProcessGroup\n"
        f"group = ProcessGroup([sys.executable, '-c', {FAMILY!r}, 'stay'],"
        f" cwd=Path({str(tmp_path)!r}), environment=dict(os.environ),"
        f" log=Path({str(tmp_path / 'log')!r}))\n"
        f"while not Path({str(tmp_path / 'log')!r}).read_text(): pass\n"
        "group.send(signal.SIGSTOP)\n"
        "print(group.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    died = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=False)
    leader, child = int(died.stdout), child_of(tmp_path / "log")

    eventually(lambda: not process_runs(leader), "the command has ended")
    eventually(lambda: not process_runs(child), "its child has ended")
