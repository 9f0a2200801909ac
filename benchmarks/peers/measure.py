"""What is measured of one consumer, in a process of its own."""

import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from benchmarks.peers.cloud import DELETIONS, Cloud, watched
from benchmarks.peers.consumers import CONSUMERS, CROWD, CROWD_WORKERS, EVENTS_FILE, Consumer
from benchmarks.peers.pool import kill_group
from benchmarks.peers.workers.work import Work, events

CROWD_SIZE: Final = 100
_CROWD_WORK_S: Final = 10
_KILLS: Final = 20
_A_KILL_EVERY_S: Final = 5
# A first process of a consumer takes seconds to start, where all start at once.
_READY_WITHIN_S: Final = 300
# SQS's twelve hours end in so many seconds: several beats fit into it.
_LEFT_S: Final = 180
_LOOKS_EVERY_S: Final = 0.05

Figures = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Extent:
    """How much is measured.

    Attributes:
        ages: Seconds that a job has run when its worker is killed.
        lengths: Seconds of the jobs whose calls are counted.
        patience_s: What has not come by then counts as never.
    """

    ages: Sequence[float] = (20, 100, 300)
    lengths: Sequence[float] = (100, 600)
    patience_s: float = 2_400


def measured(name: str, folder: Path, extent: Extent, *, short: bool) -> Figures:
    """All figures of a consumer, by name. Times are seconds; None: it did not come.

    A short course has only the kills, and then the calls of a stack with nothing else to do.
    """
    consumer = CONSUMERS[name]
    consumer.install()
    with consumer.aws(folder) as aws, watched(aws) as cloud:
        consumer.start(cloud, folder)
        try:
            return _Course(name, consumer, cloud, folder / EVENTS_FILE, extent).run(short)
        finally:
            consumer.close()


@dataclass
class _Course:
    name: str
    consumer: Consumer
    cloud: Cloud
    file: Path
    extent: Extent
    figures: Figures = field(default_factory=dict)

    def run(self, short: bool) -> Figures:  # noqa: FBT001 - as `measured`
        self._deletion()
        kills: list[Callable[[], None]] = [partial(self._kill, age) for age in self.extent.ages]
        others: list[Callable[[], None]] = [self._failure, self._hang, self._beyond_the_cap]
        if self.consumer.polls_itself:
            others += [partial(self._calls, length) for length in self.extent.lengths]
        courses = kills if short else [*kills, *others]
        with ThreadPoolExecutor(len(courses) + 1) as pool:
            ends = [pool.submit(course) for course in courses]
            for end in ends[: len(kills)]:
                end.result()
            if not short:
                self._crowd()  # once the kills are measured, which it would slow down
            for end in ends:
                end.result()
        if short:
            for length in self.extent.lengths:
                self._calls(length)
        return self.figures

    def _deletion(self) -> None:
        queue = self.consumer.open("deletion", 1)
        self.consumer.send(queue, Work("deletion", 2))
        end = self._nth("deletion", "end", within_s=_READY_WITHIN_S)
        gone = self._until(lambda: self.cloud.deleted_at(queue))
        if end and gone:
            self._note(deleted=round(gone - end["at"], 2))

    def _kill(self, age: float) -> None:
        name = f"killed_at_{age:g}"
        queue = self.consumer.open(name, 2)
        self.consumer.send(queue, Work(name, first_s=age + 2 * self.extent.patience_s))
        begun = self._nth(name, "begin", within_s=_READY_WITHIN_S)
        if begun is None:
            raise TimeoutError(f"{name} did not begin")
        time.sleep(max(begun["at"] + age - time.time(), 0))
        killed = time.time()
        kill_group(begun["pid"])
        self._note(**{name: self._since(killed, self._nth(name, "begin", 2))})

    def _failure(self) -> None:
        queue = self.consumer.open("failed", 2)
        self.consumer.send(queue, Work("failed", 2, fails=True))
        if failed := self._nth("failed", "fail", within_s=_READY_WITHIN_S):
            self._note(failed=self._since(failed["at"], self._nth("failed", "begin", 2)))

    def _hang(self) -> None:
        queue = self.consumer.open("hangs", 2)
        self.consumer.send(queue, Work("hangs", 2, hangs=True))
        if begun := self._nth("hangs", "begin", within_s=_READY_WITHIN_S):
            self._note(hangs=self._since(begun["at"], self._nth("hangs", "begin", 2)))

    def _beyond_the_cap(self) -> None:
        """Seconds until a job runs a second time while it still runs."""
        if not self.consumer.polls_itself:
            return
        queue = self.consumer.open("beyond", 2)
        self.consumer.send(queue, Work("beyond", first_s=2 * self.extent.patience_s))
        if begun := self._nth("beyond", "begin", within_s=_READY_WITHIN_S):
            self.cloud.age(queue, _LEFT_S)
            second = self._nth("beyond", "begin", 2)
            self._note(twice_beyond_the_cap=self._since(begun["at"], second))

    def _calls(self, length: float) -> None:
        """Calls of AWS for one job, from its receive to its deletion.

        A stack makes calls of several services, so it must have nothing else to do meanwhile: the
        jobs of the other measurements end soon in their second attempts.
        """
        name = f"calls_{length:g}"
        queue = self.consumer.open(name, 1)
        self.consumer.send(queue, Work(name, length))
        sent = time.time()
        begun = self._nth(name, "begin", within_s=_READY_WITHIN_S)
        ended = self._nth(name, "end", within_s=_READY_WITHIN_S + length)
        if begun is None or ended is None:
            return

        def made() -> int | None:
            if self.consumer.polls_itself:  # the receive came before the beginning
                calls, before = self.cloud.calls_since(begun["at"], queue), 1
            else:
                calls, before = self.cloud.calls_since(sent), 0
            for n, call in enumerate(calls, 1):
                if call.queue == queue and call.operation in DELETIONS and call.at >= ended["at"]:
                    return before + n
            return None

        self._note(**{name: self._until(made)})

    def _crowd(self) -> None:
        """A hundred jobs, and a kill every few seconds."""
        queue = self.consumer.open(CROWD, CROWD_WORKERS)
        names = [f"{CROWD}-{n}" for n in range(CROWD_SIZE)]
        sent = time.time()
        self.consumer.send(queue, *(Work(name, _CROWD_WORK_S) for name in names))
        rng, killed = random.Random(1), dict[int, float]()  # noqa: S311 - seeded on purpose
        self._nth(names[0], "begin", within_s=_READY_WITHIN_S)
        for _ in range(_KILLS):
            time.sleep(_A_KILL_EVERY_S)
            if running := [pid for pid in self._running(names) if pid not in killed]:
                pid = rng.choice(running)
                killed[pid] = time.time()
                kill_group(pid)
        self._until(lambda: self._ended(names) == CROWD_SIZE or None)
        self._note(
            crowd_kills=len(killed),
            crowd_lost=CROWD_SIZE - self._ended(names),
            crowd_twice_at_once=len(twice_at_once(events(self.file), killed).intersection(names)),
            crowd_took=round(self._last(names) - sent, 1),
        )

    def _running(self, names: Sequence[str]) -> list[int]:
        """The processes of the jobs whose last event is a beginning."""
        last = {each["id"]: each for each in events(self.file)}
        return [last[name]["pid"] for name in names if last.get(name, {}).get("event") == "begin"]

    def _ended(self, names: Sequence[str]) -> int:
        ended = {each["id"] for each in events(self.file) if each["event"] == "end"}
        return len(ended.intersection(names))

    def _last(self, names: Sequence[str]) -> float:
        last: float = max(each["at"] for each in events(self.file) if each["id"] in names)
        return last

    def _nth(
        self, name: str, event: str, n: int = 1, *, within_s: float | None = None
    ) -> dict[str, Any] | None:
        """The job's n-th such event; None when there is none in time."""

        def look() -> dict[str, Any] | None:
            found = [e for e in events(self.file) if (e["id"], e["event"]) == (name, event)]
            return found[n - 1] if len(found) >= n else None

        return self._until(look, within_s)

    def _until(self, look: Callable[[], T | None], within_s: float | None = None) -> T | None:
        deadline = time.monotonic() + (within_s or self.extent.patience_s)
        while (found := look()) is None and time.monotonic() < deadline:
            time.sleep(_LOOKS_EVERY_S)
        return found

    def _note(self, **figures: float | None) -> None:
        self.figures |= figures
        sys.stderr.write(f"{self.name}: {json.dumps(figures)}\n")

    def _since(self, moment: float, event: dict[str, Any] | None) -> float | None:
        return None if event is None else round(event["at"] - moment, 2)


def twice_at_once(said: Sequence[dict[str, Any]], killed: dict[int, float]) -> set[str]:
    """The jobs that began while another process worked at them.

    Args:
        said: The events of all jobs, in their order.
        killed: When a process was killed.
    """
    at_work: dict[str, set[int]] = defaultdict(set)
    found = set()
    for each in said:
        others = at_work[each["id"]]
        others -= {pid for pid in others if killed.get(pid, each["at"]) < each["at"]}
        if each["event"] != "begin":
            others.discard(each["pid"])
            continue
        if others:
            found.add(each["id"])
        others.add(each["pid"])
    return found
