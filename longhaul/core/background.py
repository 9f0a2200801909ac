"""Background work in threads."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from longhaul.core.errors import TimeUpError

T = TypeVar("T")


class Threads:
    """Implements `ports.Background`. Its threads do not keep the process alive."""

    def after(self, seconds: float, do: Callable[[], None]) -> "ThreadTimer":
        return ThreadTimer(seconds, do, repeats=False)

    def every(self, period_s: float, do: Callable[[], None]) -> "ThreadTimer":
        return ThreadTimer(period_s, do, repeats=True)

    def run_all(
        self, tasks: Sequence[Callable[[], T]], *, at_once: int, within_s: float | None = None
    ) -> list[T]:
        if len(tasks) < 2 and within_s is None:  # noqa: PLR2004 - a thread would only cost
            return [task() for task in tasks]
        if within_s is not None and within_s <= 0:
            raise TimeUpError
        return _run_in_threads(tasks, at_once, within_s)


def _run_in_threads(
    tasks: Sequence[Callable[[], T]], at_once: int, within_s: float | None
) -> list[T]:
    waiting = deque(enumerate(tasks))
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def work() -> None:
        while not errors:
            try:
                number, task = waiting.popleft()
            except IndexError:  # all are begun
                return
            try:
                results[number] = task()
            except BaseException as error:  # noqa: BLE001 - raised to the caller
                errors.append(error)

    threads: list[threading.Thread] = []
    for _ in range(min(at_once, len(tasks))):
        thread = threading.Thread(target=work, name="batch", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more can be had: those that there are do the work
            if not threads:
                raise
            break
        threads.append(thread)
    end = None if within_s is None else time.monotonic() + within_s
    for thread in threads:
        thread.join(None if end is None else max(0.0, end - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        waiting.clear()
        raise TimeUpError
    if errors:
        error = errors[0]
        # An error holds all that its callers held: a cycle would keep that until a collection.
        errors.clear()
        try:
            raise error
        finally:
            del error
    return [results[number] for number in range(len(tasks))]


class ThreadTimer:
    """Implements `ports.Timer`."""

    def __init__(self, seconds: float, do: Callable[[], None], *, repeats: bool) -> None:
        self._seconds = seconds
        self._do = do
        self._repeats = repeats
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="background", daemon=True)
        self._thread.start()

    def cancel(self, *, wait_s: float = 0) -> None:
        self._cancelled.set()
        if wait_s > 0 and threading.current_thread() is not self._thread:
            self._thread.join(wait_s)

    def _run(self) -> None:
        while not self._cancelled.wait(self._seconds):
            self._do()
            if not self._repeats:
                return
