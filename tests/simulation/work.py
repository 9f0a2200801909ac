"""What is sent to a queue, and what became of it."""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    n: int
    sent_at_s: float
    length_s: float


@dataclass
class Outcome:
    """`stopped`: attempts that were stopped while they worked; `lost_s`: their work. `paid_s`: of all tasks, idle or not."""

    done: int = 0
    dead_letters: int = 0
    stopped: int = 0
    useful_s: float = 0
    lost_s: float = 0
    paid_s: float = 0

    @property
    def lost_share(self) -> float:
        """Of all work that was done, the part that was for nothing."""
        return self.lost_s / (self.lost_s + self.useful_s) if self.lost_s else 0.0

    @property
    def used_share(self) -> float:
        """Of the time for which tasks were paid, the part that did work that counted."""
        return self.useful_s / self.paid_s


def bursts(mean_s: float, rng: random.Random, count: int = 10) -> list[Job]:
    """Jobs of about that length (half of it to one and a half), one to six at a time, with pauses of about 45 minutes: a queue that wakes again and again."""
    jobs: list[Job] = []
    at = 0.0
    for _ in range(count):
        for _ in range(rng.randint(1, 6)):
            jobs.append(Job(len(jobs), at + rng.uniform(0, 30), mean_s * rng.uniform(0.5, 1.5)))
        at += rng.expovariate(1 / 2700)
    return jobs
