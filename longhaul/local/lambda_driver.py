"""Lambda on this machine: functions run in warm processes with `lambda_runtime`.

A function gets the template's environment, and Lambda's reserved variables
(https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html). This Python environment
takes the place of the template's layers. X-Ray has no daemon here, so its SDK and Powertools'
tracer are switched off by their own variables.
"""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

import io
import shutil
import sys
import uuid
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import BoundedSemaphore, Event, Lock
from typing import Any

from longhaul.local import lambda_runtime
from longhaul.local.assembly import DeployError
from longhaul.local.credentials import Credentials, NotTrustedError
from longhaul.local.host import Host
from longhaul.local.lambda_sandbox import Invocation, InvocationResult, Sandbox, Started
from longhaul.local.processes import ProcessGroup, inherited_environment

# Lambda waits one and two minutes before it retries an asynchronous invocation: too long for a
# person at a terminal.
ASYNC_RETRY_DELAYS_S = (1.0, 2.0)
# On a small machine, more processes of one function would only queue for CPU.
MAX_SANDBOXES = 4
# Asynchronous invocations at a time; most of them wait for a process.
_LATER = 32


class FunctionPool:
    """The warm processes of one function."""

    def __init__(self, function: Any, *, start: Callable[[int], Started]) -> None:
        self._arn = str(function.function_arn)
        self._timeout_s = float(function.timeout)
        self._start = start
        limit = min(MAX_SANDBOXES, function.reserved_concurrency or MAX_SANDBOXES)
        self._room = BoundedSemaphore(limit)
        self._lock = Lock()
        self._idle: list[Sandbox] = []
        self._all: set[Sandbox] = set()
        self._closed = False

    def invoke(self, payload: bytes) -> InvocationResult:
        """Run the function in an idle process or a new one; at the limit, wait for an idle one."""
        with self._room:
            sandbox = self._acquire()
            if sandbox is None:
                return InvocationResult.error("ServiceException", "the embedded AWS is stopping")
            try:
                return sandbox.invoke(
                    Invocation(str(uuid.uuid4()), self._arn, payload, self._timeout_s)
                )
            finally:
                self._release(sandbox)

    def warm_up(self) -> None:
        """Start the first process ahead of the first invocation."""
        sandbox = self._acquire()
        if sandbox is not None:
            self._release(sandbox)

    def renew(self, start: Callable[[int], Started]) -> None:
        """Start what comes in new processes; those of before end once they have nothing to do."""
        with self._lock:
            self._start = start
            for sandbox in self._all:
                sandbox.is_usable = False
            for sandbox in self._idle:
                sandbox.kill()

    def close(self) -> None:
        """Kill every process and wait for its end."""
        with self._lock:
            self._closed = True
            sandboxes = list(self._all)
        for sandbox in sandboxes:
            sandbox.kill()
        for sandbox in sandboxes:
            sandbox.join()

    def _acquire(self) -> Sandbox | None:
        with self._lock:
            if self._closed:
                return None
            # The process used last has the warmest caches.
            while self._idle:
                if (sandbox := self._idle.pop()).is_usable:
                    return sandbox
            sandbox = Sandbox(self._start, self._forget)
            self._all.add(sandbox)
            return sandbox

    def _release(self, sandbox: Sandbox) -> None:
        with self._lock:
            if sandbox.is_usable:
                self._idle.append(sandbox)
            else:
                sandbox.kill()

    def _forget(self, sandbox: Sandbox) -> None:
        with self._lock:
            self._all.discard(sandbox)


class LambdaDriver:
    """Runs functions. `function` is one of moto's."""

    def __init__(
        self, host: Host, *, image_dir: Path, image_environment: Mapping[str, str] | None = None
    ) -> None:
        """`image_dir` is the working directory of functions that are images, with their ENV."""
        self._host = host
        self._image_dir = image_dir
        self._image_environment = dict(image_environment or {})
        self._work_dir = host.work_dir / "functions"
        self._lock = Lock()
        self._pools: dict[str, FunctionPool] = {}
        self._closing = Event()
        self._later = ThreadPoolExecutor(max_workers=_LATER, thread_name_prefix="async")

    def invoke(self, function: Any, payload: bytes) -> tuple[bytes, bool]:
        """Run the function and wait.

        Returns:
            the payload, and whether it describes an error of the function.
        """
        result = self._pool(function).invoke(payload)
        return result.payload, result.failed

    def invoke_later(self, function: Any, payload: bytes) -> None:
        """Run the function in the background, with the retries of an asynchronous invocation."""
        with suppress(RuntimeError):  # it is closed
            self._later.submit(self._invoke_with_retries, function, payload)

    def warm_up(self, function: Any) -> None:
        """Start a process of the function."""
        self._pool(function).warm_up()

    def renew(self, function: Any) -> None:
        """Start the function's next invocations in new processes, with its environment of now."""
        self._pool(function).renew(self._starter(function))

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            pools = list(self._pools.values())
        for pool in pools:
            pool.close()
        self._later.shutdown()

    def _invoke_with_retries(self, function: Any, payload: bytes) -> None:
        for delay_s in (*ASYNC_RETRY_DELAYS_S, None):
            _, failed = self.invoke(function, payload)
            if not failed or delay_s is None or self._closing.wait(delay_s):
                break

    def _pool(self, function: Any) -> FunctionPool:
        name = str(function.function_name)
        with self._lock:
            if name not in self._pools:
                self._pools[name] = FunctionPool(function, start=self._starter(function))
                if self._closing.is_set():
                    self._pools[name].close()
            return self._pools[name]

    def _unpacked(self, function: Any) -> Path:
        code = self._work_dir / str(function.function_name)
        if code.is_dir():  # processes of before a change may still read it
            return code
        with zipfile.ZipFile(io.BytesIO(function.code_bytes)) as archive:
            archive.extractall(code)
        return code

    def _lent(self, function: Any) -> Credentials:
        try:
            return self._host.lend(str(function.role), str(function.function_name), "lambda")
        except NotTrustedError as error:
            raise DeployError(
                "The role defined for the function cannot be assumed by Lambda. "
                f"({function.function_name}: {error})"
            ) from error

    def _starter(self, function: Any) -> Callable[[int], Started]:
        name = str(function.function_name)
        is_image = function.package_type == "Image"
        code = self._image_dir if is_image else self._unpacked(function)
        handler = function.image_config.cmd[0] if is_image else function.handler
        environment = (
            inherited_environment()
            | (self._image_environment if is_image else {})
            | dict(function.environment_vars or {})
            | self._host.environment(self._lent(function))
            | {
                "_HANDLER": handler,
                "AWS_EXECUTION_ENV": f"AWS_Lambda_{'Image' if is_image else function.run_time}",
                "AWS_LAMBDA_FUNCTION_NAME": name,
                "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
                "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
                "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
                "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{name}",
                "AWS_XRAY_SDK_ENABLED": "false",
                "LAMBDA_TASK_ROOT": str(code),
                "POWERTOOLS_TRACE_DISABLED": "1",
                "TZ": ":UTC",
            }
        )

        def start(sandbox: int) -> Started:
            # Each environment has a /tmp of its own.
            id_ = uuid.uuid4().hex
            temporary = self._work_dir / "tmp" / id_
            temporary.mkdir(parents=True)
            # People read the logs of our functions; those of jobs are read through the API.
            log = self._work_dir / (f"{name}-{id_}.log" if is_image else f"{name}.log")
            group = function.log_group if is_image else None
            stream = f"{datetime.now(UTC):%Y/%m/%d}/{name}[$LATEST]{id_}"
            own = {
                "AWS_LAMBDA_LOG_STREAM_NAME": stream,
                "TMPDIR": str(temporary),
            }
            process = ProcessGroup(
                [sys.executable, "-u", lambda_runtime.__file__, handler, str(sandbox)],
                cwd=code,
                environment=environment | own,
                log=log,
                files=[sandbox],
            )
            ending = ExitStack()
            ending.callback(shutil.rmtree, temporary, ignore_errors=True)
            ending.enter_context(self._host.shipper.following(log, group, stream))
            return Started(process, log, ending.close)

        return start
