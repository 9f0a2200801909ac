"""What the demo kills, what it leaves alone, and what it finds left behind."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import psutil
import pytest

from examples.demo import kill

ENDPOINT = f"http://127.0.0.1/{uuid.uuid4()}"
KEY = f"clean#{uuid.uuid4()}"
_WITHIN_S = 60

_TASK = """
import subprocess
# It ends with its parent, at the end of its input.
subprocess.Popen(
    ["sh", "-c", "echo; read -r _"], stdin=subprocess.PIPE, process_group=0
).wait()
"""


@pytest.fixture
def job() -> Iterator[subprocess.Popen[bytes]]:
    """A process with the environment of a job's, with a child in another group, as Spark has."""
    process = subprocess.Popen(
        [sys.executable, "-c", _TASK],
        stdout=subprocess.PIPE,
        env=os.environ | {"LONGHAUL_KEY": KEY, "AWS_ENDPOINT_URL": ENDPOINT},
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout:
        # An empty environment is read of a process that is still being made.
        process.stdout.readline()
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_group_of_a_job_is_killed(job: subprocess.Popen[bytes]) -> None:
    assert kill.kill(KEY, ENDPOINT)
    assert job.wait(_WITHIN_S) == -signal.SIGKILL


def test_the_task_is_killed_and_not_the_workers_that_spark_keeps_in_a_group_of_their_own(
    job: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would start them anew, and the attempt go on.

    After the ids of processes have begun again at the lowest, a child comes before its parent.
    """
    workers = next(iter(psutil.Process(job.pid).children()))
    assert os.getpgid(workers.pid) == workers.pid
    monkeypatch.setattr(psutil, "process_iter", lambda: [workers, psutil.Process(job.pid)])
    assert kill.kill(KEY, ENDPOINT)
    assert job.wait(_WITHIN_S) == -signal.SIGKILL


def test_a_job_that_has_committed_meanwhile_goes_on(job: subprocess.Popen[bytes]) -> None:
    seen = []

    def has_committed() -> bool:
        # It cannot commit between this answer and the kill.
        os.waitpid(job.pid, os.WUNTRACED)
        seen.append(psutil.Process(job.pid).status())
        return True

    assert not kill.kill(KEY, ENDPOINT, unless=has_committed)
    assert seen == [psutil.STATUS_STOPPED]
    os.waitpid(job.pid, os.WCONTINUED)
    assert job.poll() is None
