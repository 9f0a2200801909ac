"""Things that run for a while, each attended by a thread of its own from beginning to end. For who starts them, ends them, and waits for their ends."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class _Entry(Generic[T]):
    thing: T
    thread: Thread
    lock: Lock = field(default_factory=Lock)
    ended: bool = False
    callbacks: list[Callable[[], None]] = field(default_factory=list)


class Attendance(Generic[T]):
    """By name; what has ended is still known."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._closed = False
        self._entries: dict[str, _Entry[T]] = {}

    def begin(self, name: str, thing: T, attend: Callable[[T], None]) -> None:
        """Have it attended: it has ended when `attend` returns.

        Raises:
            RuntimeError: nothing begins any more.
        """
        thread = Thread(target=self._attend, args=(name, attend), name=name, daemon=True)
        with self._lock:
            if self._closed:
                raise RuntimeError("the embedded AWS is stopping")
            self._entries[name] = _Entry(thing, thread)
            thread.start()

    def __getitem__(self, name: str) -> T:
        return self._entries[name].thing

    def __iter__(self) -> Iterator[str]:
        """The names of all, also of what has ended."""
        return iter(list(self._entries))

    def has_ended(self, name: str) -> bool:
        return self._entries[name].ended

    def on_end(self, name: str, callback: Callable[[], None]) -> None:
        """Call back when it has ended, at once if it has."""
        entry = self._entries[name]
        with entry.lock:
            if not entry.ended:
                entry.callbacks.append(callback)
                return
        callback()

    def close(self) -> None:
        """Let nothing begin any more. What runs goes on."""
        with self._lock:
            self._closed = True

    def join(self) -> None:
        """Wait until all have ended, and whoever waited for it has heard."""
        for entry in list(self._entries.values()):
            entry.thread.join()

    def _attend(self, name: str, attend: Callable[[T], None]) -> None:
        entry = self._entries[name]
        try:
            attend(entry.thing)
        finally:
            with entry.lock:
                entry.ended = True
                callbacks, entry.callbacks = entry.callbacks, []
            for callback in callbacks:
                callback()
