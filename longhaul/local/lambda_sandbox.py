"""One execution environment of a function: a process with `lambda_runtime`.

The two speak over a socket, a line of JSON at a time: an invocation, then its result. It handles
one invocation at a time, and is frozen in between: no thread of it runs, and no process that it
left.
"""

import json
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from longhaul.local.processes import SIGNAL_EXIT_BASE, ProcessGroup

# Lambda allows 10 s for an initialization. Here other processes share the cores.
INIT_LIMIT_S = 60.0


@dataclass(frozen=True)
class Invocation:
    request_id: str
    function_arn: str
    payload: bytes
    timeout_s: float


@dataclass(frozen=True)
class InvocationResult:
    payload: bytes
    failed: bool

    @classmethod
    def error(cls, error_type: str, message: str) -> "InvocationResult":
        return cls(
            json.dumps({"errorType": error_type, "errorMessage": message}).encode(), failed=True
        )


@dataclass(frozen=True)
class Started:
    """A process that was started for a sandbox, and its log. `ended` is called after its end."""

    process: ProcessGroup
    log: Path
    ended: Callable[[], None]


class Sandbox:
    """Started at once; `invoke` waits for its initialization."""

    def __init__(
        self, start: Callable[[int], Started], on_end: Callable[["Sandbox"], None]
    ) -> None:
        """Start the process.

        Args:
            start: starts it, given the file of its end of the socket.
            on_end: called after the end of the process.
        """
        self.is_usable = True
        """Whether it may get a further invocation."""
        self._initialized: Future[bytes] = Future()
        self._exit_code = 0
        self._socket, theirs = socket.socketpair()
        self._lines = self._socket.makefile("rwb")
        with theirs:
            self._started = start(theirs.fileno())
        self._process = self._started.process
        self._thread = Thread(
            target=self._wait, args=(on_end,), name=f"lambda-{self._process.pid}", daemon=True
        )
        self._thread.start()

    def invoke(self, invocation: Invocation) -> InvocationResult:
        """Run one invocation.

        The function's error, its timeout and the death of its process are results with Lambda's
        error payloads.
        """
        self._log(f"START RequestId: {invocation.request_id} Version: $LATEST")
        try:
            return self._invoke(invocation)
        finally:
            self._log(f"END RequestId: {invocation.request_id}")

    def _log(self, line: str) -> None:
        with self._started.log.open("a") as log:
            log.write(f"{line}\n")

    def _invoke(self, invocation: Invocation) -> InvocationResult:
        said, line = f"RequestId: {invocation.request_id} Error:", _line_of(invocation)
        overdue = f"Init timed out after {INIT_LIMIT_S:g} s"
        try:
            initialized = _result_of(self._initialized.result(INIT_LIMIT_S))
            if initialized.failed:
                return initialized
            overdue = f"Task timed out after {invocation.timeout_s:.2f} seconds"
            self._process.send(signal.SIGCONT)
            self._socket.settimeout(invocation.timeout_s)
            self._lines.write(line)
            self._lines.flush()
            result = _result_of(self._lines.readline())
        except TimeoutError:
            # As Lambda does: a handler that is out of time never finishes.
            self.kill()
            return InvocationResult.error("Sandbox.Timedout", f"{said} {overdue}")
        except (OSError, ValueError):  # it has ended
            how = f"Runtime exited with error: {self._how_it_ended()}"
            return InvocationResult.error("Runtime.ExitError", f"{said} {how}")
        self._process.send(signal.SIGSTOP)
        return result

    def kill(self) -> None:
        """Send SIGKILL, as when Lambda reclaims an environment. `join` waits for the end."""
        self.is_usable = False
        self._process.send(signal.SIGKILL)

    def join(self) -> None:
        self._thread.join()

    def _wait(self, on_end: Callable[["Sandbox"], None]) -> None:
        self._initialized.set_result(self._lines.readline())
        self._exit_code = self._process.wait()
        self.is_usable = False
        # What the process left may have the socket still.
        self._socket.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):  # what was not read by it
            self._lines.close()
        self._socket.close()
        self._started.ended()
        on_end(self)

    def _how_it_ended(self) -> str:
        self.join()
        if self._exit_code > SIGNAL_EXIT_BASE:
            name = signal.strsignal(self._exit_code - SIGNAL_EXIT_BASE) or ""
            return f"signal: {name.lower()}"
        return f"exit status {self._exit_code}"


def _result_of(line: bytes) -> InvocationResult:
    """Raises ValueError for no line: the process has ended."""
    said = json.loads(line)
    return InvocationResult(said["payload"].encode(), failed=said["failed"])


def _line_of(invocation: Invocation) -> bytes:
    said = {
        "request_id": invocation.request_id,
        "function_arn": invocation.function_arn,
        "deadline_ms": int((time.time() + invocation.timeout_s) * 1000),
        "event": invocation.payload.decode(),
    }
    return json.dumps(said).encode() + b"\n"
