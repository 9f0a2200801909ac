"""What attempts cost, and how much of it was wasted: what they used, times list prices. Pure.

The calls of functions, queue, table and bucket are left out: some 0.0001 dollars an attempt.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date as day
from datetime import datetime
from math import floor, log10
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from longhaul.core.engine import TINY
from longhaul.core.history import AttemptRecord
from longhaul.core.settings import Architecture, Model, RuntimeSettings, TaskSize
from longhaul.operations.timeline import outcome

USUAL: Final = Path(__file__).with_name("prices.json")

RUNNING: Final = "running"
SPENT_ON: Final = ("succeeded", "failed", "interrupted", "cancelled", RUNNING)
"""What the money of an attempt was spent on: its outcome; of one that runs it is not known yet."""

# Each state entered is a transition: RunUnderLease, Rights, MainRights, RunOnFargate, FirstWait,
# Settle, Outcome, Done, and the three of the last beat, which finds the job settled.
TRANSITIONS: Final = 11
TRANSITIONS_PER_BEAT: Final = 3  # Wait, Beat, AfterBeat

_HOUR: Final = 3600
_LEAST_SHOWN: Final = 0.0001

Price = Annotated[float, Field(ge=0)]


class Prices(Model):
    """Prices in a currency, each for one unit: `prices.json`, or a user's own in the same form."""

    region: str
    currency: str
    date: day
    sources: tuple[str, ...] = ()
    vcpu_hour: dict[Architecture, Price]
    gb_hour: dict[Architecture, Price]
    disk_gb_hour: Price
    free_disk_gb: int
    spot_discount: Annotated[float, Field(ge=0, lt=1)]  # the most that AWS names
    minimum_s: int  # a shorter task is charged for this long
    public_ip_hour: Price
    invocation: Price
    invocation_gb_second: dict[Architecture, Price]
    transition: Price


@dataclass(frozen=True)
class AttemptCost:
    """The cost of an attempt until now.

    Attributes:
        record: The attempt.
        spent_on: One of `SPENT_ON`.
        task_s: The seconds that its task is charged for.
        is_exact: Whether these are ECS's own; else they are the time from the claim to the end.
        task: What the task costs; None where the settings no longer have its size.
        around: What the state machine costs.
    """

    record: AttemptRecord
    spent_on: str
    task_s: float
    is_exact: bool
    task: float | None
    around: float

    @property
    def total(self) -> float:
        return (self.task or 0.0) + self.around


def cost_of(
    record: AttemptRecord, prices: Prices, settings: RuntimeSettings, now: datetime
) -> AttemptCost:
    """Sizes and architecture are those of the stack now: earlier ones are not recorded."""
    attempt = record.attempt
    begin = attempt.task_from or attempt.claimed_at
    end = attempt.task_until or record.ended_at or now
    task_s = max(0.0, (end - begin).total_seconds()) if attempt.task_arn else 0.0
    sizes = {str(name): size for name, size in settings.tasks.sizes.items()}
    size = sizes.get(record.size)
    beats = attempt.beats + attempt.hand_overs
    return AttemptCost(
        record=record,
        spent_on=outcome(record) or RUNNING,
        task_s=task_s,
        is_exact=None not in (attempt.task_arn, attempt.task_from, attempt.task_until),
        task=_task(record, size, task_s, prices, settings) if size else None,
        around=(TRANSITIONS + TRANSITIONS_PER_BEAT * beats) * prices.transition,
    )


def _task(
    record: AttemptRecord,
    size: TaskSize,
    task_s: float,
    prices: Prices,
    settings: RuntimeSettings,
) -> float:
    if not task_s:
        return 0.0
    architecture, gb = settings.tasks.architecture, size.memory_mib / 1024
    if record.size == TINY:  # Lambda's CPU is paid with its memory, by the millisecond
        return prices.invocation + task_s * gb * prices.invocation_gb_second[architecture]
    hours = max(task_s, prices.minimum_s) / _HOUR
    per_hour = size.cpu / 1024 * prices.vcpu_hour[architecture] + gb * prices.gb_hour[architecture]
    if record.capacity == "FARGATE_SPOT":
        per_hour *= 1 - prices.spot_discount
    per_hour += max(0, size.disk_gib - prices.free_disk_gb) * prices.disk_gb_hour
    return hours * (per_hour + (prices.public_ip_hour if settings.tasks.public_ip else 0.0))


def sums(costs: Iterable[AttemptCost]) -> dict[str, float]:
    """The total, and how much of it was spent on what."""
    amounts = dict.fromkeys(("total", *SPENT_ON), 0.0)
    for each in costs:
        amounts["total"] += each.total
        amounts[each.spent_on] += each.total
    return amounts


def money(amount: float) -> str:
    """To the cent, or with three significant digits: most jobs cost less than a cent."""
    if amount <= 0:
        return "0"
    if amount < _LEAST_SHOWN:
        return f"<{_LEAST_SHOWN}"
    return f"{amount:.{max(2, 2 - floor(log10(amount)))}f}"
