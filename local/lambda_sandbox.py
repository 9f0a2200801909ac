"""One execution environment of a function: a process with the real Lambda runtime client, and the Runtime API that it talks to.

The Runtime API is Lambda's (https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html): the process asks for the next invocation, and posts its answer or
error. One process handles one invocation at a time.
"""

import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread

from local.http_services import HttpServices, QuietHandler
from local.processes import ProcessGroup

# Lambda gives an initialization 10 s. Here other processes share two cores with it.
INIT_LIMIT_S = 60.0


@dataclass(frozen=True)
class Invocation:
    request_id: str
    function_arn: str
    payload: bytes
    timeout_s: float


@dataclass(frozen=True)
class Answer:
    payload: bytes
    failed: bool

    @classmethod
    def error(cls, error_type: str, message: str) -> "Answer":
        return cls(json.dumps({"errorType": error_type, "errorMessage": message}).encode(), failed=True)


class Sandbox:
    """Started at once; `invoke` waits for its initialization."""

    def __init__(
        self,
        services: HttpServices,
        start: Callable[[str], ProcessGroup],
        on_end: Callable[["Sandbox"], None],
    ) -> None:
        """Open the Runtime API and start the process.

        Args:
            services: where the Runtime API is opened.
            start: starts the process, given the address of its Runtime API.
            on_end: told when the process has ended.
        """
        self._changed = Condition()
        self._asking = False
        self._invocation: Invocation | None = None
        self._deadline = 0.0
        self._answer: Answer | None = None
        self._init_error: Answer | None = None
        self._exit_code: int | None = None
        self._condemned = False  # killed by us: no more invocations, also before its end is noticed
        self._service = services.open(_handler_of(self))
        self._on_end = on_end
        self._process = start(self._service.address)
        self._thread = Thread(target=self._attend, name=f"lambda-{self._process.pid}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._exit_code is None and not self._condemned

    def invoke(self, invocation: Invocation) -> Answer:
        """Run one invocation. An error of the function, its timeout and the death of its process come back as Lambda's error payloads."""
        with self._changed:
            self._changed.wait_for(lambda: self._asking or not self.alive, INIT_LIMIT_S)
            if not self.alive:
                return self._init_error or self._exit_error(invocation)
            if not self._asking:
                self._process.send(signal.SIGKILL)
                return Answer.error(
                    "Sandbox.Timedout",
                    f"RequestId: {invocation.request_id} Error: Init timed out after {INIT_LIMIT_S:g} s",
                )
            self._answer, self._asking = None, False
            self._invocation = invocation
            self._deadline = time.time() + invocation.timeout_s
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answer is not None or not self.alive, invocation.timeout_s)
            self._invocation = None
            if self._answer is not None:
                return self._answer
            if not self.alive:
                return self._exit_error(invocation)
            self._condemned = True
        # As Lambda does: what the handler did not finish in time, it never finishes.
        self._process.send(signal.SIGKILL)
        return Answer.error(
            "Sandbox.Timedout",
            f"RequestId: {invocation.request_id} Error: Task timed out after {invocation.timeout_s:.2f} seconds",
        )

    def kill(self) -> None:
        """SIGKILL, as Lambda reclaims an environment. `join` waits for the end."""
        self._process.send(signal.SIGKILL)

    def join(self) -> None:
        self._thread.join()

    def next_invocation(self) -> tuple[Invocation, float] | None:
        """For the Runtime API: what to run, and its deadline in epoch seconds; None when the process has ended."""
        with self._changed:
            self._asking = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._invocation is not None or not self.alive)
            return (self._invocation, self._deadline) if self._invocation else None

    def post(self, request_id: str, answer: Answer) -> None:
        """For the Runtime API: the answer; one that comes after the timeout is nobody's."""
        with self._changed:
            if self._invocation is not None and self._invocation.request_id == request_id:
                self._answer = answer
                self._invocation = None
                self._changed.notify_all()

    def post_init_error(self, answer: Answer) -> None:
        with self._changed:
            self._init_error = answer

    def _attend(self) -> None:
        code = self._process.wait()
        with self._changed:
            self._exit_code = code
            self._changed.notify_all()
        self._service.close()
        self._on_end(self)

    def _exit_error(self, invocation: Invocation) -> Answer:
        return Answer.error(
            "Runtime.ExitError",
            f"RequestId: {invocation.request_id} Error: Runtime exited with error: exit status {self._exit_code}",
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
            self.answer(
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
                sandbox.post_init_error(Answer(body, failed=True))
            else:
                sandbox.post(owner, Answer(body, failed=kind == "error"))
            self.answer(202)

    return RuntimeApi
