"""Jobs for minutes on end: whether the mapping goes on as fast as it began. Pure but for `trials`.

Every message of a job that starts is reported as a batch item failure, so that it stays in the
queue. AWS says that polling is not scaled down when such items fail
(https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html). If it were, messages
would wait longer and longer: that is what is measured.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from longhaul.cli.acceptance.cases import Case, Ending, Trial
from longhaul.cli.acceptance.verdicts import Result, Verdict
from longhaul.cli.acceptance.watcher import Observed
from longhaul.domain.durations import format_duration
from longhaul.domain.lease import State
from longhaul.ports import Clock

CASE: Final = Case("soak", "jobs for minutes on end", Ending(State.SUCCEEDED, rows=1))
_MINUTE: Final = timedelta(minutes=1)
# The last third may wait twice as long as the first, and some seconds: cold starts come at random.
_SLOWER: Final = 2.0
_SLACK_S: Final = 5.0


@dataclass(frozen=True)
class Minute:
    """What happened within a minute. `wait_s` is the median wait in the queue; None if none."""

    begin: datetime
    receives: int
    deletes: int
    wait_s: float | None


@dataclass(frozen=True)
class Soak:
    minutes: Sequence[Minute]
    result: Result


def trials(make: Callable[[Case, str], Trial], clock: Clock, seconds: float) -> Iterator[Trial]:
    """One trial after the other until the time is over."""
    ends, number = clock.now() + timedelta(seconds=seconds), 0
    while clock.now() < ends:
        number += 1
        yield make(CASE, f"soak-{number:05}")


def soaked(trials: Sequence[Observed], seconds: float) -> Soak:
    """What the trials of a soak of so many seconds show."""
    minutes = list(by_minute(trials))
    good = sum(
        each.row is not None and each.row.state is State.SUCCEEDED and not each.is_late
        for each in trials
    )
    early, late = _thirds(_waits(trials))
    slower = late is not None and early is not None and late > _SLOWER * early + _SLACK_S
    summary = f"{good} of {len(trials)} jobs succeeded"
    if early is not None and late is not None:
        summary += f"; median wait in the queue {early:.1f} s at first, {late:.1f} s at last"
    receives, deletes = (
        sum(each.receives for each in minutes),
        sum(each.deletes for each in minutes),
    )
    per_minute = max(len(minutes), 1)
    summary += (
        f"; {receives / per_minute:.1f} receives and {deletes / per_minute:.1f} deletes a minute"
    )
    failed = slower or good < len(trials) or not trials
    do = "look at the dispatcher's mapping, its throttles and its log" if failed else ""
    return Soak(
        minutes,
        Result(
            name=CASE.name,
            what=f"{CASE.what}, {format_duration(seconds)}",
            expected="all succeed, and none waits much longer at the end than at the beginning",
            happened=summary,
            verdict=Verdict.FAILED if failed else Verdict.PASSED,
            do=do,
        ),
    )


def by_minute(trials: Sequence[Observed]) -> Iterator[Minute]:
    """Every minute from the first claim to the last deletion, with those in which nothing was."""
    claims = [
        (each.row.attempt.claimed_at, each.row.receive.receive_count) for each in trials if each.row
    ]
    if not claims:
        return
    gone = [each.gone_at for each in trials if each.gone_at]
    waits = _waits(trials)
    begin, end = min(at for at, _ in claims), max([*gone, *(at for at, _ in claims)])
    while begin <= end:
        until = begin + _MINUTE
        now = [wait for at, wait in waits if begin <= at < until]
        yield Minute(
            begin,
            receives=sum(count for at, count in claims if begin <= at < until),
            deletes=sum(begin <= at < until for at in gone),
            wait_s=round(median(now), 1) if now else None,
        )
        begin = until


def _waits(trials: Sequence[Observed]) -> list[tuple[datetime, float]]:
    """When each job was claimed, and how long its message had waited, in the order of claims."""
    return sorted(
        (claimed_at := each.row.attempt.claimed_at, max(0.0, (claimed_at - since).total_seconds()))
        for each in trials
        if each.row is not None
        and each.row.attempt.number == 1
        and (since := each.row.receive.first_sent_at) is not None
    )


def _thirds(waits: Sequence[tuple[datetime, float]]) -> tuple[float | None, float | None]:
    """The median waits of the first and the last third; None for too few jobs to compare."""
    third = len(waits) // 3
    if not third:
        return None, None
    return median(wait for _, wait in waits[:third]), median(wait for _, wait in waits[-third:])
