"""What jobs cost, and how much of it was for nothing. Pure: usage times prices."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum

from longhaul.domain.history import Attempt
from longhaul.domain.outcome import OutcomeClass
from longhaul.domain.prices import Prices
from longhaul.domain.timeline import Lane, went_wrong
from longhaul.domain.usage import Usage, usage
from longhaul.settings import RuntimeSettings

_HOUR = 3600


class Fate(StrEnum):
    """What an attempt's money went into."""

    USEFUL = "useful"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    RUNNING = "running"  # nobody knows yet


@dataclass(frozen=True)
class Cost:
    """Parts of a sum, in the currency of the price table."""

    cpu: float = 0.0
    memory: float = 0.0
    disk: float = 0.0
    public_ip: float = 0.0
    transitions: float = 0.0
    functions: float = 0.0
    queue: float = 0.0
    table: float = 0.0
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
    attempt: Attempt
    usage: Usage
    cost: Cost
    fate: Fate


@dataclass(frozen=True)
class JobCost:
    lane: Lane
    attempts: tuple[AttemptCost, ...]

    @property
    def cost(self) -> Cost:
        return sum((each.cost for each in self.attempts), Cost())

    def by_fate(self) -> dict[Fate, float]:
        return by_fate([self])


@dataclass(frozen=True)
class Pricing:
    """`architecture` and sizes are those that the stack has now: what an attempt ran on before they changed nobody keeps."""

    prices: Prices
    settings: RuntimeSettings

    def job(self, lane: Lane, now: datetime) -> JobCost:
        output = lane.row.output
        found = []
        for attempt in lane.attempts:
            committed = output if output is not None and output.attempt == attempt.attempt else None
            used = usage(attempt, committed, self.settings, now)
            found.append(AttemptCost(attempt, used, self.cost(used), fate(attempt)))
        return JobCost(lane, tuple(found))

    def cost(self, used: Usage) -> Cost:
        """The price of a usage."""
        prices, architecture = self.prices, self.settings.tasks.architecture
        fargate = prices.fargate
        # A task of which nothing is paid never was.
        hours = max(used.task_s, fargate.minimum_s) / _HOUR if used.task_s else 0.0
        factor = hours * (1 - fargate.spot_discount if used.spot else 1)
        size = used.size
        return Cost(
            cpu=factor * fargate.vcpu_hour[architecture] * size.cpu / 1024 if size else 0.0,
            memory=factor * fargate.gb_hour[architecture] * size.memory_mib / 1024 if size else 0.0,
            disk=hours * fargate.disk_gb_hour * max(0, size.disk_gib - fargate.free_disk_gb) if size else 0.0,
            public_ip=hours * prices.public_ip.hour if self.settings.tasks.public_ip else 0.0,
            transitions=used.transitions * prices.step_functions.transition,
            functions=used.function_calls * prices.lambda_.request
            + used.function_gb_s * prices.lambda_.gb_second[architecture],
            queue=used.queue_requests * prices.sqs.request,
            table=used.write_units * prices.dynamodb.write_unit + used.read_units * prices.dynamodb.read_unit,
            storage=used.puts * prices.s3.put,
        )


def fate(attempt: Attempt) -> Fate:
    if attempt.ended_at is None:
        return Fate.RUNNING
    if not went_wrong(attempt):
        return Fate.USEFUL
    kinds = {OutcomeClass.INTERRUPTED.value: Fate.INTERRUPTED, OutcomeClass.CANCELLED.value: Fate.CANCELLED}
    return kinds.get(attempt.kind or "", Fate.FAILED)


def by_fate(jobs: Iterable[JobCost]) -> dict[Fate, float]:
    """How much went into what, with a zero where nothing did."""
    found = dict.fromkeys(Fate, 0.0)
    for job in jobs:
        for each in job.attempts:
            found[each.fate] += each.cost.total
    return found


def by_stage(jobs: Iterable[JobCost]) -> Mapping[str, list[JobCost]]:
    """In the order of their names."""
    found: dict[str, list[JobCost]] = {}
    for job in sorted(jobs, key=lambda each: each.lane.row.stage):
        found.setdefault(job.lane.row.stage, []).append(job)
    return found
