"""A registry of long-running things, one thread each: start, look up, wait."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _Entry(Generic[T]):
    thing: T
    thread: Thread
    end: Future[None] = field(default_factory=Future)


class Supervisor(Generic[T]):
    """Things by name. A thing stays in the registry after its end."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._closed = False
        self._entries: dict[str, _Entry[T]] = {}

    def start(self, name: str, thing: T, run: Callable[[T], None]) -> None:
        """Call `run(thing)` in a thread of its own; the thing has ended when it returns or raises.

        Raises:
            RuntimeError: the supervisor is closed.
        """
        thread = Thread(target=self._run, args=(name, run), name=name, daemon=True)
        with self._lock:
            if self._closed:
                raise RuntimeError("the embedded AWS is stopping")
            self._entries[name] = _Entry(thing, thread)
            thread.start()

    def __getitem__(self, name: str) -> T:
        return self._entries[name].thing

    def __iter__(self) -> Iterator[str]:
        """All names, those of ended things included."""
        return iter(list(self._entries))

    def has_ended(self, name: str) -> bool:
        return self._entries[name].end.done()

    def on_end(self, name: str, callback: Callable[[], None]) -> None:
        """Call back when the thing has ended; at once if it already has."""
        self._entries[name].end.add_done_callback(lambda _: callback())

    def close(self) -> None:
        """Refuse further starts. What runs goes on."""
        with self._lock:
            self._closed = True

    def join(self) -> None:
        """Wait until every thing has ended and its callbacks have returned."""
        for entry in list(self._entries.values()):
            entry.thread.join()

    def _run(self, name: str, run: Callable[[T], None]) -> None:
        entry = self._entries[name]
        try:
            run(entry.thing)
        finally:
            entry.end.set_result(None)
