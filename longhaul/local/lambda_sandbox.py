"""One execution environment of a function: a process with a client of the Runtime API.

The process talks to its own Runtime API
(https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html): it asks for the next invocation,
and posts its response or error. It handles one invocation at a time, and is frozen in between: no
thread of it runs, and no process that it left.
"""

import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, Thread

from longhaul.local.http_services import HttpService, QuietHandler
from longhaul.local.private_files import private
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
        self,
        start: Callable[[str], Started],
        on_end: Callable[["Sandbox"], None],
    ) -> None:
        """Open the Runtime API and start the process.

        Args:
            start: starts the process, given the address of its Runtime API.
            on_end: called after the end of the process.
        """
        self._changed = Condition()
        self._asking = False
        self._invocation: Invocation | None = None
        self._deadline = 0.0
        self._result: InvocationResult | None = None
        self._init_error: InvocationResult | None = None
        self._exit_code: int | None = None
        self._condemned = False  # killed at a timeout; its end may not be noticed yet
        self._service = HttpService(_handler_of(self))
        self._on_end = on_end
        with self._changed:  # the process may ask before it is known here
            self._started = start(self._service.address)
            self._process = self._started.process
        self._thread = Thread(target=self._wait, name=f"lambda-{self._process.pid}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._exit_code is None and not self._condemned

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
        with open(self._started.log, "a", opener=private) as log:
            log.write(f"{line}\n")

    def _invoke(self, invocation: Invocation) -> InvocationResult:
        with self._changed:
            self._changed.wait_for(lambda: self._asking or not self.alive, INIT_LIMIT_S)
            if not self.alive:
                return self._init_error or self._exit_error(invocation)
            if not self._asking:
                self._process.send(signal.SIGKILL)
                return InvocationResult.error(
                    "Sandbox.Timedout",
                    f"RequestId: {invocation.request_id} "
                    f"Error: Init timed out after {INIT_LIMIT_S:g} s",
                )
            self._process.send(signal.SIGCONT)
            self._result, self._asking = None, False
            self._invocation = invocation
            self._deadline = time.time() + invocation.timeout_s
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._result is not None or not self.alive, invocation.timeout_s
            )
            self._invocation = None
            if self._result is not None:
                return self._result
            if not self.alive:
                return self._exit_error(invocation)
            self._condemned = True
        # As Lambda does: a handler that is out of time never finishes.
        self._process.send(signal.SIGKILL)
        return InvocationResult.error(
            "Sandbox.Timedout",
            f"RequestId: {invocation.request_id} "
            f"Error: Task timed out after {invocation.timeout_s:.2f} seconds",
        )

    def kill(self) -> None:
        """Send SIGKILL, as when Lambda reclaims an environment. `join` waits for the end."""
        self._process.send(signal.SIGKILL)

    def join(self) -> None:
        self._thread.join()

    def next_invocation(self) -> tuple[Invocation, float] | None:
        """Wait for the next invocation, for the Runtime API.

        Returns:
            the invocation and its deadline in epoch seconds; None when the process has ended.
        """
        with self._changed:
            self._asking = True
            self._process.send(signal.SIGSTOP)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._invocation is not None or not self.alive)
            return (self._invocation, self._deadline) if self._invocation else None

    def post(self, request_id: str, result: InvocationResult) -> None:
        """Take the result of an invocation; one that comes after the timeout is dropped."""
        with self._changed:
            if self._invocation is not None and self._invocation.request_id == request_id:
                self._result = result
                self._invocation = None
                self._changed.notify_all()

    def post_init_error(self, error: InvocationResult) -> None:
        with self._changed:
            self._init_error = error

    def _wait(self) -> None:
        code = self._process.wait()
        with self._changed:
            self._exit_code = code
            self._changed.notify_all()
        self._service.close()
        self._started.ended()
        self._on_end(self)

    def _exit_error(self, invocation: Invocation) -> InvocationResult:
        code = self._exit_code or 0
        how = f"exit status {code}"
        if code > SIGNAL_EXIT_BASE:
            how = f"signal: {(signal.strsignal(code - SIGNAL_EXIT_BASE) or '').lower()}"
        return InvocationResult.error(
            "Runtime.ExitError",
            f"RequestId: {invocation.request_id} Error: Runtime exited with error: {how}",
        )


def _handler_of(sandbox: Sandbox) -> type[QuietHandler]:
    class RuntimeApi(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - the base class's name
            """GET …/runtime/invocation/next."""
            following = sandbox.next_invocation()
            if following is None:
                self.close_connection = True
                return
            invocation, deadline = following
            self.respond(
                200,
                invocation.payload,
                {
                    "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
                    "Lambda-Runtime-Deadline-Ms": str(int(deadline * 1000)),
                    "Lambda-Runtime-Invoked-Function-Arn": invocation.function_arn,
                },
            )

        def do_POST(self) -> None:  # noqa: N802 - the base class's name
            """POST …/invocation/{id}/response, …/invocation/{id}/error or …/init/error."""
            body = self.body()
            *_, owner, kind = self.path.split("/")
            if owner == "init":
                sandbox.post_init_error(InvocationResult(body, failed=True))
            else:
                sandbox.post(owner, InvocationResult(body, failed=kind == "error"))
            self.respond(202)

    return RuntimeApi
