"""Spark's JVM, started directly, without a launcher JVM or a shell script.

It boots while inputs are staged. It never outlives this process: it reads a pipe of ours and exits
when that closes, however we end. Its own end is noticed within a second.
"""

import logging
import os
import re
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from longhaul.runner.resources import Resources
from longhaul.runner.spark.jvm import command, spark_home

OUT_OF_MEMORY_EXIT: Final = 3
"""HotSpot's exit code under ExitOnOutOfMemoryError."""

# The file in its folder to which the JVM writes its address, and the secret of its clients.
_CONNECTION: Final = "gateway-connection"

_POLL_S: Final = 0.02
_TAIL_LINES: Final = 40
_STOP_WAIT_S: Final = 5

# As log4j2.properties writes it: level, logger, and the message with `\n` for its line breaks.
_OF_SPARK: Final = re.compile(
    r"(?:TRACE|DEBUG|INFO|WARNING|ERROR|CRITICAL) \S*: .*?(?=: |\\[nr]|$)"
    r"(?:: (?:org\.apache\.spark\.[\w.$]+: \[[A-Z0-9_.]+\]|[\w.$]+(?:Exception|Error)\b))?"
)

logger = logging.getLogger(__name__)


class GatewayError(ConnectionError):
    """The JVM did not come up."""


class Gateway:
    """A running JVM with its Py4J gateway."""

    def __init__(
        self,
        scratch: Path,
        resources: Resources,
        *,
        aot: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the JVM and return at once.

        Its shuffle and temporary files go to `scratch`; `aot` is as in `jvm.command`. Its
        `environment` is by default that of this process.
        """
        local_dirs = scratch / "spark"
        local_dirs.mkdir(parents=True, exist_ok=True)
        self._connection = scratch / _CONNECTION
        environment = {
            **(os.environ if environment is None else environment),
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._connection),
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",  # else it listens on the task's outer address
            "SPARK_LOCAL_DIRS": str(local_dirs),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        # In our own process group: killing the group kills a JVM too busy to read its pipe.
        self._process = subprocess.Popen(
            command(resources, local_dirs, aot=aot),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            text=True,
            errors="replace",
        )
        self._stopping = threading.Event()
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._reader: threading.Thread | None = None

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def attach(self, timeout_s: float = 120) -> None:
        """Wait for the JVM and point PySpark at it: the next SparkContext of this process uses it.

        Its output is logged from now on.

        Raises:
            GatewayError: it ended, or did not answer in time.
        """
        self._reader = threading.Thread(target=self._read_output, name="jvm-output", daemon=True)
        self._reader.start()

        deadline = time.monotonic() + timeout_s
        while not self._connection.exists():  # written beside and renamed: whole when it is there
            if self._process.poll() is not None:
                raise GatewayError(
                    f"the JVM ended with {self._process.returncode}: {self.last_words()}"
                )
            if time.monotonic() > deadline:
                raise GatewayError(f"the JVM did not answer within {timeout_s} s")
            time.sleep(_POLL_S)
        written = self._connection.read_bytes()
        self._connection.unlink()
        port, length = struct.unpack(">ii", written[:8])
        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = written[8 : 8 + length].decode()
        # The driver names the interpreter of its workers, whatever the JVM was started with. Else
        # they run the first `python3` of PATH, which may lack what the job imports.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

    def on_death(self, callback: Callable[[int], object]) -> None:
        """Call `callback` with the exit code if the JVM ends before `stop`."""

        def watch() -> None:
            code = self._process.wait()
            if not self._stopping.is_set():
                callback(code)

        threading.Thread(target=watch, name="jvm-watch", daemon=True).start()

    def retire(self, timeout_s: float) -> int:
        """Let the JVM finish what it writes and end; returns its exit code.

        Raises:
            subprocess.TimeoutExpired: it did not end within that time.
        """
        self._stopping.set()
        if self._process.stdin:
            self._process.stdin.close()  # which tells the JVM to end
        return self._process.wait(timeout_s)

    def stop(self) -> None:
        """Kill the JVM and all processes below it: scratch space needs no orderly end."""
        self._stopping.set()
        try:
            children = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            children = []
        self._process.kill()
        for child in children:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait(_STOP_WAIT_S)
        if self._reader is not None:
            self._reader.join(_STOP_WAIT_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()

    def last_words(self) -> str:
        """The last line that it printed."""
        return self.tail[-1] if self.tail else "it said nothing"

    def _read_output(self) -> None:
        output = self._process.stdout
        if output is None:
            raise AssertionError("the JVM was started without a pipe")
        spark = logging.getLogger("spark")
        for line in output:
            text = printable(line)
            self.tail.append(text)
            # Spark's lines begin with the level; HotSpot's own do not.
            level = logging.getLevelNamesMapping().get(text.partition(" ")[0], logging.INFO)
            spark.log(level, text)


class LateGateway:
    """A JVM that is started when it is known that the job needs one."""

    def __init__(self, scratch: Path, resources: Resources) -> None:
        self._scratch = scratch
        self._resources = resources
        # As it is now: later it has the secrets of the stage, which SQL could name in a JVM that
        # has them (`${env:…}`).
        self._environment = dict(os.environ)
        self._gateway: Gateway | None = None

    @property
    def is_started(self) -> bool:
        return self._gateway is not None

    def start(self) -> Gateway:
        """Start it, unless it is."""
        if self._gateway is None:
            self._gateway = Gateway(self._scratch, self._resources, environment=self._environment)
        return self._gateway

    def stop(self) -> None:
        if self._gateway is not None:
            self._gateway.stop()


def printable(line: str) -> str:
    """A line of the JVM's output as a log may show it.

    After a message's first colon Spark quotes errors, plans and settings, and so the query and the
    data. Of these an error's class and condition are kept. What HotSpot says and what a job prints
    are not Spark's lines, and stay as they are.
    """
    text = line.rstrip()
    of_spark = _OF_SPARK.match(text)
    return of_spark[0] if of_spark else text
