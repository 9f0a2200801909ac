"""What jobs cost, and how much of it was wasted: usage times prices. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import zip_longest
from math import floor, log10

from longhaul.cli.insight.prices import Prices
from longhaul.cli.insight.timeline import Lane, went_wrong
from longhaul.cli.insight.usage import Usage, usage
from longhaul.domain.history import AttemptRecord
from longhaul.domain.lease import State
from longhaul.domain.saved import KEPT_FOR_REDRIVE
from longhaul.domain.verdict import OutcomeClass
from longhaul.settings import RuntimeSettings

_HOUR = 3600


class SpentOn(StrEnum):
    """What the money of an attempt was spent on."""

    USEFUL = "useful"
    SAVED = "saved"  # it failed or was interrupted, and this is up to its last save
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
    functions: float = 0.0
    queue: float = 0.0
    table: float = 0.0
    storage: float = 0.0
    saved_work: float = 0.0  # of what it stored for the next attempt

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
    saved: float = 0.0  # the part up to its last save, of an attempt that went wrong

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
        begun_anew = _last_begun_anew(lane)
        for record, later in zip_longest(lane.attempts, lane.attempts[1:]):
            committed = (
                output if output is not None and output.attempt == record.attempt.number else None
            )
            until = later.attempt.claimed_at if later else _removed_at(lane, now)
            used = usage(record, committed, self.settings, now, until)
            cost, purpose = self.cost(used), spent_on(record)
            is_left = record.attempt.claimed_at < begun_anew
            saved = 0.0 if is_left else cost.total * _saved_share(record, purpose, lane)
            costs.append(AttemptCost(record, used, cost, purpose, saved))
        return JobCost(lane, tuple(costs))

    def cost(self, used: Usage) -> Cost:
        """The price of a usage."""
        prices, architecture = self.prices, self.settings.tasks.architecture
        return replace(
            self._invocation(used) if used.on_lambda else self._task(used),
            transitions=used.transitions * prices.step_functions.transition,
            functions=used.function_calls * prices.lambda_.request
            + used.function_gb_s * prices.lambda_.gb_second[architecture],
            queue=used.queue_requests * prices.sqs.request,
            table=used.write_units * prices.dynamodb.write_unit
            + used.read_units * prices.dynamodb.read_unit,
            storage=used.puts * prices.s3.put,
            saved_work=used.stored_gb_months * prices.s3.gb_month,
        )

    def _task(self, used: Usage) -> Cost:
        prices, architecture = self.prices, self.settings.tasks.architecture
        fargate = prices.fargate
        # Never started: the one-minute minimum does not apply.
        hours = max(used.task_s, fargate.minimum_s) / _HOUR if used.task_s else 0.0
        factor = hours * (1 - fargate.spot_discount if used.spot else 1)
        size = used.size
        return Cost(
            cpu=factor * fargate.vcpu_hour[architecture] * size.cpu / 1024 if size else 0.0,
            memory=factor * fargate.gb_hour[architecture] * size.memory_mib / 1024 if size else 0.0,
            disk=hours * fargate.disk_gb_hour * max(0, size.disk_gib - fargate.free_disk_gb)
            if size
            else 0.0,
            public_ip=hours * prices.public_ip.hour if self.settings.tasks.public_ip else 0.0,
        )

    def _invocation(self, used: Usage) -> Cost:
        """Lambda's CPU is paid with its memory, by the millisecond."""
        size, prices = used.size, self.prices.lambda_
        if size is None or not used.task_s:
            return Cost()
        gb_second = prices.gb_second[self.settings.tasks.architecture]
        disk_gb = max(0.0, size.disk_gib - prices.free_disk_gb)
        return Cost(
            memory=used.task_s * gb_second * size.memory_mib / 1024 + prices.request,
            disk=used.task_s * disk_gb * prices.disk_gb_second,
        )


def spent_on(record: AttemptRecord) -> SpentOn:
    if record.ended_at is None:
        return SpentOn.RUNNING
    if not went_wrong(record):
        return SpentOn.USEFUL
    kinds = {
        OutcomeClass.INTERRUPTED.value: SpentOn.INTERRUPTED,
        OutcomeClass.NOT_PLACED.value: SpentOn.INTERRUPTED,
        OutcomeClass.REFUSED.value: SpentOn.INTERRUPTED,
        OutcomeClass.CANCELLED.value: SpentOn.CANCELLED,
    }
    return kinds.get(record.kind or "", SpentOn.FAILED)


def _removed_at(lane: Lane, now: datetime) -> datetime | None:
    """When what the job has stored was removed; None: it is there."""
    if lane.ended_at is None or lane.row.state is not State.DEAD:
        return lane.ended_at
    return min(now, lane.ended_at + KEPT_FOR_REDRIVE)


def _last_begun_anew(lane: Lane) -> datetime:
    """When the last attempt was claimed that went on from nothing of those before it."""
    return max(
        (
            each.attempt.claimed_at
            for each in lane.attempts
            if each.attempt.resumes is None
            or str(each.attempt.progress.get("taken_over", "")).startswith("nothing")
        ),
        default=datetime.min.replace(tzinfo=UTC),
    )


def _saved_share(record: AttemptRecord, purpose: SpentOn, lane: Lane) -> float:
    """The part of an attempt that is up to its last save, from 0 to 1.

    A cancel removes what the run has stored: then nothing was saved.
    """
    is_removed = lane.row.state is State.CANCELLED and lane.row.run == record.run
    if purpose not in (SpentOn.FAILED, SpentOn.INTERRUPTED) or is_removed:
        return 0.0
    if record.saved_at is None or record.ended_at is None:
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
