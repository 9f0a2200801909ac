"""Thread pools of the product's, as processes of the timeline: in place of `concurrent.futures`, in the order that the timeline says."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

from greenlet import getcurrent

from tests.simulation.hosts import here


class Future:
    def __init__(self) -> None:
        self.is_done = False
        self._error: BaseException | None = None
        self._answer: Any = None
        self._waiting: list[Callable[[], None]] = []

    def settle(self, error: BaseException | None, answer: Any) -> None:
        self.is_done, self._error, self._answer = True, error, answer
        for wake in self._waiting:
            wake()
        self._waiting.clear()

    def result(self) -> Any:
        self.join()
        if self._error is not None:
            raise self._error
        return self._answer

    def join(self) -> None:
        host = here()
        process = getcurrent()
        while not self.is_done:
            self._waiting.append(lambda: _wake(host, process))
            process.give_way()

    @property
    def failed(self) -> bool:
        return self._error is not None


def _wake(host: Any, process: Any) -> None:
    host.timeline.after(0, process.go_on)


class Threads:
    """What the product uses of `ThreadPoolExecutor`."""

    def __init__(self, max_workers: int, thread_name_prefix: str = "") -> None:
        del thread_name_prefix
        self._free = max_workers
        self._queue: list[tuple[Callable[[], Any], Future]] = []
        self._futures: list[Future] = []
        self._host = here()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future:
        future = Future()
        self._futures.append(future)
        self._queue.append((lambda: work(*arguments), future))
        self._begin()
        return future

    def map(self, work: Callable[..., Any], *arguments: Iterable[Any]) -> Iterator[Any]:
        futures = [self.submit(work, *each) for each in zip(*arguments, strict=False)]
        return (future.result() for future in futures)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as the original
        if cancel_futures:
            for _, future in self._queue:
                future.settle(RuntimeError("cancelled"), None)
            self._queue.clear()
        if wait:
            for future in self._futures:
                future.join()

    def _begin(self) -> None:
        while self._free and self._queue:
            self._free -= 1
            work, future = self._queue.pop(0)

            def ended(error: BaseException | None, answer: Any, future: Future = future) -> None:
                self._free += 1
                future.settle(error, answer)
                self._begin()

            self._host.run(work, ended)


def wait(futures: Sequence[Future], return_when: str) -> tuple[list[Future], list[Future]]:
    """In the place of `concurrent.futures.wait`, for FIRST_EXCEPTION."""
    if return_when != "FIRST_EXCEPTION":
        raise NotImplementedError(return_when)
    for future in futures:
        future.join()
        if future.failed:
            break
    return [each for each in futures if each.is_done], [each for each in futures if not each.is_done]
