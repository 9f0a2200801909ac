"""Writes down when a task of a benchmark reaches each step of its start."""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import psutil

from longhaul.runner.spark import gateway as gateways

VARIABLE: Final = "BENCHMARK_STAMPS"
"""The file for the stamps; without it, nothing is stamped."""


class Stamps:
    """Lines of JSON: a step, the time (s since 1970), and the CPU seconds of both processes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._jvm: psutil.Process | None = None
        self._jvm_cpu_s = 0.0

    def watch(self, runner: ModuleType) -> None:
        """Stamp the steps of `runner.main`."""
        self._stamp("python started")
        gateway_of: Callable[..., Any] = gateways.Gateway
        begin = runner.end_when_stopped

        def started(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - Gateway's own
            gateway: Any = gateway_of(*arguments, **named)
            self._jvm = psutil.Process(gateway.pid)
            self._stamp("JVM process started")
            gateway.attach = self._before_the_session(self._after("JVM answers", gateway.attach))
            return gateway

        def put_together(attempt: Any) -> None:  # noqa: ANN401 - an AttemptRunner
            self._stamp("imports and clients")
            spark = attempt.spark
            report = attempt.leases.report
            register = self._after("registered", report)
            attempt.leases.report = lambda given: (
                register(given) if "task_arn" in given.sets else report(given)
            )
            attempt.area.stage = self._after("staged", attempt.area.stage)
            run = spark.run
            spark.run = lambda loaded, job: run(
                replace(loaded, run=self._after("job ends", loaded.run)), job
            )
            spark.await_session = self._after("job begins", spark.await_session)
            attempt.run = self._after("published", attempt.run)
            begin(attempt)

        gateways.Gateway = started  # type: ignore[misc, assignment]
        runner.end_when_stopped = put_together  # type: ignore[attr-defined]

    def _before_the_session(self, attach: Callable[..., None]) -> Callable[..., None]:
        def attached(*arguments: Any, **named: Any) -> None:  # noqa: ANN401 - Gateway's own
            attach(*arguments, **named)
            # Here it is imported already, and its session not yet begun.
            from longhaul.runner.spark.local import LocalSpark  # noqa: PLC0415

            LocalSpark._build = self._after("session", LocalSpark._build)  # type: ignore[method-assign] # noqa: SLF001

        return attached

    def _after(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def stamped(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - the function's own
            found = function(*arguments, **named)
            self._stamp(step)
            return found

        return stamped

    def _stamp(self, step: str) -> None:
        # The JVM is ended after the job, and cannot be asked any more.
        if self._jvm is not None:
            with suppress(psutil.NoSuchProcess):
                self._jvm_cpu_s = sum(self._jvm.cpu_times()[:2])
        line = [step, time.time(), time.process_time() + self._jvm_cpu_s]
        with self._file.open("a") as opened:
            opened.write(json.dumps(line) + "\n")


def stamp_if_asked(runner: ModuleType) -> None:
    """Stamp the steps of `runner.main` if the environment names a file for that."""
    if file := os.environ.get(VARIABLE):
        Stamps(Path(file)).watch(runner)
