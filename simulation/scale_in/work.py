"""The jobs that both designs get, and what became of them."""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    n: int
    sent_at_s: float
    length_s: float


@dataclass
class Outcome:
    """What a design did with the jobs.

    Attributes:
        stopped: Attempts that were stopped while they worked.
        lost_s: Their work.
        paid_s: The time of all tasks, idle or not.
    """

    done: int = 0
    dead_letters: int = 0
    stopped: int = 0
    useful_s: float = 0
    lost_s: float = 0
    paid_s: float = 0

    @property
    def lost_share(self) -> float:
        """The part of all work that was lost."""
        return self.lost_s / (self.lost_s + self.useful_s) if self.lost_s else 0.0

    @property
    def used_share(self) -> float:
        """The part of the paid time that was useful work."""
        return self.useful_s / self.paid_s


def bursts(mean_s: float, rng: random.Random, count: int = 10) -> list[Job]:
    """Bursts of one to six jobs with pauses of about 45 minutes, so that the queue often empties.

    A job takes between a half and one and a half of the mean length.
    """
    jobs: list[Job] = []
    at = 0.0
    for _ in range(count):
        for _ in range(rng.randint(1, 6)):
            jobs.append(Job(len(jobs), at + rng.uniform(0, 30), mean_s * rng.uniform(0.5, 1.5)))
        at += rng.expovariate(1 / 2700)
    return jobs


def nights(mean_s: float, rng: random.Random, count: int = 5) -> list[Job]:
    """One burst of one to six jobs a day, so that the queue is asleep when it comes."""
    sent = (
        (86_400 * day + rng.uniform(0, 30), mean_s * rng.uniform(0.5, 1.5))
        for day in range(count)
        for _ in range(rng.randint(1, 6))
    )
    return [Job(n, *each) for n, each in enumerate(sent)]
