"""The runner of a job of the size `tiny`: a process that the function's handler starts."""

import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from greenlet import getcurrent

from longhaul.core.lease import AttemptId
from simulation.aws.platform.invocations import failed
from simulation.aws.platform.job_process import JobProcess
from simulation.worlds.plan import Ending
from simulation.worlds.randomness import rng_of, unit

if TYPE_CHECKING:
    from simulation.aws.platform.job_function import Invocation
    from simulation.aws.platform.timeline import Process

_PLATFORM_FAILS = ("spot", "maintenance", "infrastructure")
_SIGNALS = 128
_KILLED = 9
_LONGEST_PAUSE_S = 500.0
_HALF = 0.5


class TinyProcess(JobProcess):
    """As `Forked` to the handler, which waits for it."""

    def __init__(
        self, invocation: "Invocation", task_ref: str, environment: Mapping[str, str]
    ) -> None:
        function, name = invocation.function, invocation.name
        key, run, attempt = (environment[f"LONGHAUL_{each}"] for each in ("KEY", "RUN", "ATTEMPT"))
        super().__init__(
            function.containers,
            function.around,
            AttemptId(key, int(run), int(attempt)),
            id_=name,
            task_ref=task_ref,
            name=name,
            rng=rng_of(function.around.plan.seed, name),
            skew_s=invocation.environment.skew_s,
        )
        self._invocation = invocation
        self._containers = function.containers
        self._code: int | None = None
        self._waiting: Process | None = None

    def start(self) -> None:
        self._containers.runs(self)
        self.begin()

    def wait(self, timeout: float | None = None) -> int:
        if self._code is None:
            caller = self._waiting = cast("Process", getcurrent())
            end = self.timeline.after(timeout or 0, self._wake)
            caller.give_way()
            end.cancel()
        if self._code is None:
            raise subprocess.TimeoutExpired("the runner", timeout or 0)
        return self._code

    def kill(self) -> None:
        if self._code is None:
            self._ended(-_KILLED)

    def work_known(self, work: int, ending: Ending) -> None:
        super().work_known(work, ending)
        if ending.kind in _PLATFORM_FAILS:
            self.later(ending.after_s, self._invocation.lost)
        if ending.kind == "cut_off":
            self.later(ending.after_s, self._cut_off)
        if ending.kind == "frozen":
            self.later(ending.after_s, self._freeze)

    def exit(self, code: int, reason: str | None = None) -> None:
        """A signal's code is negative to the parent. Out of memory may end the handler too."""
        self._ended(code if code <= _SIGNALS else _SIGNALS - code)
        if reason is not None and self._chance("killed") < _HALF:
            message = "RequestId: 0 Error: Runtime exited with error: signal: killed"
            self._invocation.lose("Runtime.ExitError", message)

    def stand_still(self) -> None:
        """Its handler is gone, and its environment frozen."""
        if self.host.alive:
            self.is_cut_off = True
            self.host.freeze()
            self.owner.over(self)

    def thaw(self) -> None:
        self._containers.runs(self)
        self.host.thaw()

    def _freeze(self) -> None:
        lasts = self._chance("lasts")
        self._invocation.pause(_LONGEST_PAUSE_S * lasts if lasts < _HALF else None)

    def _cut_off(self) -> None:
        """The invoker is told that it has failed."""
        self.is_cut_off = True
        self._invocation.answer(failed("Lambda.Unknown", ""))

    def _ended(self, code: int) -> None:
        self._code = code
        self.over()
        if self._waiting is not None:
            self.timeline.after(0, self._wake)

    def _wake(self) -> None:
        caller, self._waiting = self._waiting, None
        if caller is not None:
            caller.go_on()

    def _chance(self, what: str) -> float:
        return unit(self.around.plan.seed, f"{what}:{self.host.name}")
