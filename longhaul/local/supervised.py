"""What a driver runs for a service: a process with a log, from its start to its end.

Each has a thread of its own, which tells an observer of its start and its end.
"""

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock, Thread
from typing import Generic, Protocol, TypeVar

from longhaul.local.host import Host
from longhaul.local.processes import ProcessGroup


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What is to run. `role` is its own, and without a log group its log is not shipped."""

    arn: str
    log_group: str | None = None
    log_prefix: str = ""
    role: str | None = None

    @property
    def id(self) -> str:
        return self.arn.rpartition("/")[2]

    @property
    def log_stream(self) -> str:
        """The name that the service gives the stream."""
        raise NotImplementedError


S = TypeVar("S", bound=Spec)
E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)


class Observer(Protocol[E_contra]):
    """Called from the run's thread."""

    def started(self, at: datetime) -> None: ...

    def ended(self, end: E_contra) -> None: ...


class Run(Generic[S, E]):
    def __init__(self, spec: S, observer: Observer[E]) -> None:
        self.spec = spec
        self.observer = observer
        self.lock = Lock()
        self.process: ProcessGroup | None = None
        self.stop_reason: str | None = None
        self.end: Future[None] = Future()


class Supervisor(Generic[S, E]):
    """The runs of a service, by ARN. A run stays here after its end."""

    def __init__(self, host: Host, folder: str) -> None:
        """Logs and temporary files are in this folder of the work dir."""
        self.host = host
        self._folder = host.work_dir / folder
        self._lock = Lock()
        self._is_closed = False
        self._runs: dict[str, Run[S, E]] = {}
        self._threads: list[Thread] = []

    def run(self, spec: S, observer: Observer[E]) -> None:
        """Start it in a thread of its own.

        Raises:
            RuntimeError: the embedded AWS is stopping.
        """
        run = Run(spec, observer)
        thread = Thread(target=self._run, args=(run,), name=spec.arn, daemon=True)
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the embedded AWS is stopping")
            self._runs[spec.arn] = run
            self._threads.append(thread)
            thread.start()

    def stop(self, arn: str, reason: str) -> None:
        """Begin its end, as the service does. Does nothing to one that has ended."""
        run = self._runs[arn]
        with run.lock:
            if run.end.done() or run.stop_reason is not None:
                return
            run.stop_reason = reason
            if run.process is not None:
                self._break_off(run.spec, run.process)

    def on_end(self, arn: str, callback: Callable[[], None]) -> None:
        """Call back when it has ended; at once if it already has."""
        self._runs[arn].end.add_done_callback(lambda _: callback())

    def log_of(self, arn: str) -> Path:
        return self._folder / f"{arn.rpartition('/')[2]}.log"

    def close(self) -> None:
        """Stop all, and wait for their ends."""
        with self._lock:
            self._is_closed = True
        for arn in self._runs:
            self.stop(arn, "the embedded AWS is stopping")
        for thread in self._threads:
            thread.join()

    def _break_off(self, spec: S, process: ProcessGroup) -> None:
        raise NotImplementedError

    def _run_to_the_end(self, run: Run[S, E], temporary: Path) -> E:
        """Run it; `temporary` is a folder of its own, which it makes, and which goes with it."""
        raise NotImplementedError

    def _launch(
        self, run: Run[S, E], command: list[str], *, cwd: Path, environment: Mapping[str, str]
    ) -> ProcessGroup | None:
        """Start its process; None: it was stopped before.

        Raises:
            OSError: the command cannot be started.
        """
        with run.lock:
            if run.stop_reason is None:
                log = self.log_of(run.spec.arn)
                run.process = ProcessGroup(command, cwd=cwd, environment=dict(environment), log=log)
        if run.process is not None:
            run.observer.started(datetime.now(UTC))
        return run.process

    def _run(self, run: Run[S, E]) -> None:
        spec, log = run.spec, self.log_of(run.spec.arn)
        temporary = log.with_suffix(".tmp")
        try:
            # Ship before the end is reported: a client that then reads the log finds all of it.
            with self.host.shipper.following(log, spec.log_group, spec.log_stream):
                try:
                    end = self._run_to_the_end(run, temporary)
                finally:
                    # On AWS the disk goes with it, also that of a killed one.
                    shutil.rmtree(temporary, ignore_errors=True)
            run.observer.ended(end)
        finally:
            run.end.set_result(None)
