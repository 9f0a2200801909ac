"""What jobs cost, and how much of it was wasted: usage times prices. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from itertools import zip_longest
from math import floor, log10

from longhaul.cli.insight.prices import Prices
from longhaul.cli.insight.timeline import Lane, outcome
from longhaul.cli.insight.usage import Usage, usage
from longhaul.domain.history import AttemptRecord
from longhaul.settings import RuntimeSettings, TaskSize

_NOTHING = "nothing"  # as a progress report begins that names why

_HOUR = 3600


class SpentOn(StrEnum):
    """What the money of an attempt was spent on."""

    USEFUL = "useful"
    SAVED = "saved"  # it went wrong, and the next one went on from this
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    RUNNING = "running"  # not known yet


@dataclass(frozen=True)
class Cost:
    """Parts of a sum, in the currency of the price table."""

    cpu: float = 0.0
    memory: float = 0.0
    disk: float = 0.0
    public_ip: float = 0.0
    transitions: float = 0.0
    storage: float = 0.0

    @property
    def task(self) -> float:
        return self.cpu + self.memory + self.disk + self.public_ip

    @property
    def total(self) -> float:
        return sum(self.parts().values())

    def parts(self) -> dict[str, float]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(**{name: value + getattr(other, name) for name, value in self.parts().items()})


@dataclass(frozen=True)
class AttemptCost:
    record: AttemptRecord
    usage: Usage
    cost: Cost
    spent_on: SpentOn
    saved: float = 0.0  # the part up to its last save, from which the next attempt went on

    @property
    def lost(self) -> float:
        """The rest."""
        return self.cost.total - self.saved


@dataclass(frozen=True)
class JobCost:
    lane: Lane
    attempts: tuple[AttemptCost, ...]

    @property
    def cost(self) -> Cost:
        return sum((each.cost for each in self.attempts), Cost())

    @property
    def wasted(self) -> float:
        """What failed, interrupted and cancelled attempts cost, since their last saves."""
        amounts = amounts_spent([self])
        return amounts[SpentOn.FAILED] + amounts[SpentOn.INTERRUPTED] + amounts[SpentOn.CANCELLED]


@dataclass(frozen=True)
class Pricing:
    """Sizes and architecture are those of the stack now: earlier ones are not recorded."""

    prices: Prices
    settings: RuntimeSettings

    def job(self, lane: Lane, now: datetime) -> JobCost:
        output = lane.row.attempt.output
        costs = []
        for record, later in zip_longest(lane.attempts, lane.attempts[1:]):
            number = record.attempt.number
            committed = output if output is not None and output.attempt == number else None
            used = usage(record, committed, self.settings, now)
            cost, purpose = self.cost(used), spent_on(record)
            took = str(later.attempt.progress.get("taken_over") or _NOTHING) if later else _NOTHING
            saved = 0.0 if took.startswith(_NOTHING) else cost.total * _saved_share(record)
            costs.append(AttemptCost(record, used, cost, purpose, saved))
        return JobCost(lane, tuple(costs))

    def cost(self, used: Usage) -> Cost:
        """The price of a usage."""
        task = Cost()
        if used.size is not None and used.task_s:
            price = self._invocation if used.on_lambda else self._task
            task = price(used, used.size)
        return replace(
            task,
            transitions=used.transitions * self.prices.step_functions.transition,
            storage=used.puts * self.prices.s3.put,
        )

    def _task(self, used: Usage, size: TaskSize) -> Cost:
        fargate, architecture = self.prices.fargate, self.settings.tasks.architecture
        hours = max(used.task_s, fargate.minimum_s) / _HOUR
        factor = hours * (1 - fargate.spot_discount if used.spot else 1)
        return Cost(
            cpu=factor * fargate.vcpu_hour[architecture] * size.cpu / 1024,
            memory=factor * fargate.gb_hour[architecture] * size.memory_mib / 1024,
            disk=hours * fargate.disk_gb_hour * max(0, size.disk_gib - fargate.free_disk_gb),
            public_ip=hours * self.prices.public_ip.hour if self.settings.tasks.public_ip else 0.0,
        )

    def _invocation(self, used: Usage, size: TaskSize) -> Cost:
        """Lambda's CPU is paid with its memory, by the millisecond."""
        prices = self.prices.lambda_
        gb_second = prices.gb_second[self.settings.tasks.architecture]
        disk_gb = max(0.0, size.disk_gib - prices.free_disk_gb)
        return Cost(
            memory=used.task_s * gb_second * size.memory_mib / 1024 + prices.request,
            disk=used.task_s * disk_gb * prices.disk_gb_second,
        )


def spent_on(record: AttemptRecord) -> SpentOn:
    ended = outcome(record)
    if ended is None:
        return SpentOn.RUNNING
    return SpentOn.USEFUL if ended == "succeeded" else SpentOn(ended)


def _saved_share(record: AttemptRecord) -> float:
    """The part of an attempt that is up to its last save, from 0 to 1."""
    if record.saved_at is None or record.ended_at is None or outcome(record) == "succeeded":
        return 0.0
    begin = record.attempt.task_from or record.attempt.claimed_at
    whole = ((record.attempt.task_until or record.ended_at) - begin).total_seconds()
    until_save = (record.saved_at - begin).total_seconds()
    return max(0.0, min(1.0, until_save / whole)) if whole > 0 else 0.0


def amounts_spent(jobs: Iterable[JobCost]) -> dict[SpentOn, float]:
    """The amount spent on each purpose; zero where there is none."""
    amounts = dict.fromkeys(SpentOn, 0.0)
    for job in jobs:
        for each in job.attempts:
            amounts[SpentOn.SAVED] += each.saved
            amounts[each.spent_on] += each.lost
    return amounts


def by_stage(jobs: Iterable[JobCost]) -> Mapping[str, list[JobCost]]:
    """Jobs by stage, in the order of the stages' names."""
    stages: dict[str, list[JobCost]] = {}
    for job in sorted(jobs, key=lambda each: each.lane.row.stage):
        stages.setdefault(job.lane.row.stage, []).append(job)
    return stages


_LEAST_SHOWN = 0.0001


def money(amount: float) -> str:
    """To the cent, or with three significant digits: most jobs cost less than a cent."""
    if amount <= 0:
        return "0"
    if amount < _LEAST_SHOWN:
        return f"<{_LEAST_SHOWN}"
    return f"{amount:.{max(2, 2 - floor(log10(amount)))}f}"
