"""The jobs: whether the sweeper runs, whether leases are stuck, whether dead letters wait."""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from longhaul.cli.checks.finding import Finding, ok, problem, skipped, warning
from longhaul.cli.target import Target
from longhaul.config.settings import SWEEP_PERIOD
from longhaul.domain.durations import format_duration
from longhaul.domain.lease import Lease, State, job_key
from longhaul.operations.dead_letters import Which
from longhaul.settings import LeaseSettings

_QUIET = 4 * SWEEP_PERIOD
# One sweep may be late and one may fail: what three have left is not repaired by the next.
_PATIENCE = 3 * SWEEP_PERIOD
_LETTERS_LIVE = timedelta(days=14)
_SOON = timedelta(days=4)
_MAX_NAMED = 5


def sweeps(target: Target) -> Iterator[Finding]:
    """By the metric that the sweeper's alarm watches."""
    if target.place.embedded:
        yield skipped(
            "sweeper: the embedded AWS keeps no metrics; "
            "its log is functions/*Sweeper*.log in the work dir"
        )
        return
    now = target.parts.clock.now()
    points = target.client("cloudwatch").get_metric_statistics(
        Namespace=target.settings.metrics_namespace,
        MetricName="Sweeps",
        Dimensions=[{"Name": "service", "Value": "sweeper"}],
        StartTime=now - _QUIET,
        EndTime=now,
        Period=int(_QUIET.total_seconds()),
        Statistics=["Sum"],
    )["Datapoints"]
    count = sum(point["Sum"] for point in points)
    if count:
        yield ok(f"sweeper: {count:g} sweeps in the last {format_duration(_QUIET.total_seconds())}")
    else:
        yield problem(
            f"sweeper: no sweep in the last {format_duration(_QUIET.total_seconds())}: "
            "what a crash leaves is not repaired",
            "look at its log and at the queue of undelivered events",
        )


def leases(target: Target) -> Iterator[Finding]:
    """Leases that several sweeps should have repaired."""
    names = [stage.name for stage in target.settings.stages]
    rows, now = target.jobs.unfinished(names), target.parts.clock.now()
    found: dict[Stuck, list[str]] = {}
    for row in rows:
        if how := stuck(row, target.settings.lease, now):
            found.setdefault(how, []).append(row.job_id)
    if not found:
        yield ok(f"leases: {len(rows)} unfinished, none of them stuck")
    for how, ids in found.items():
        more = f" and {len(ids) - _MAX_NAMED} more" if len(ids) > _MAX_NAMED else ""
        yield problem(f"leases: {how.value}: {', '.join(ids[:_MAX_NAMED])}{more}", _WAYS_OUT[how])


class Stuck(Enum):
    """How a lease is that several sweeps have seen and not repaired."""

    OVERDUE = "running, but without a beat for long"
    MISSING = "released, but their message has not come"
    OWING = "ended, but owing something for long"


_WAYS_OUT: Final = {
    Stuck.OVERDUE: "is the sweeper running? `longhaul status JOB` names the execution to look at",
    Stuck.MISSING: "is the mapping on, and the sweeper running?",
    Stuck.OWING: "`longhaul status JOB` says what; the sweeper's log says why it fails",
}


def stuck(lease: Lease, timing: LeaseSettings, now: datetime) -> Stuck | None:
    """Whether several sweeps must have seen it and not repaired it."""
    if lease.is_overdue(now, timedelta(seconds=timing.visibility_margin_s) + _PATIENCE):
        return Stuck.OVERDUE
    if lease.state is State.RELEASED:
        missing_after = timedelta(seconds=timing.missing_after_s) + _PATIENCE
        if lease.unseen_for(now) > missing_after:
            return Stuck.MISSING
    if lease.owed and now > lease.ended_at + _PATIENCE:
        return Stuck.OWING
    return None


def dead_letters(target: Target) -> Iterator[Finding]:
    for stage in target.settings.stages:
        now = target.parts.clock.now()
        with closing(target.dead_letters.look(stage, Which())) as letters:
            found = [(job_key(stage.name, each.job_id or ""), each.sent_at) for each in letters]
        rows = target.parts.leases.load_many({key for key, _ in found})
        well = {key for key, row in rows.items() if row.state is State.SUCCEEDED}
        # A job that has succeeded since needs nobody: its letter only tells what was.
        waiting = [sent_at for key, sent_at in found if key not in well]
        count, oldest = len(waiting), min(waiting, default=now)
        lifetime = _LETTERS_LIVE - (now - oldest)
        if not count:
            yield ok(f"dead letters: none of stage {stage.name}")
        elif lifetime < _SOON:
            yield problem(
                f"dead letters: {count} of stage {stage.name}; SQS drops the oldest in "
                f"{format_duration(max(0.0, lifetime.total_seconds()))}",
                "`longhaul dlq list --older-than 10d`, then `longhaul rerun --older-than 10d`",
            )
        else:
            yield warning(
                f"dead letters: {count} of stage {stage.name}",
                "`longhaul dlq list` says why; then `longhaul rerun --dead` or `dlq drop`",
            )


def alarms(target: Target) -> Iterator[Finding]:
    names = list(target.physical("AWS::CloudWatch::Alarm").values())
    if target.place.embedded or not names:
        yield skipped(
            "alarms: the embedded AWS has none"
            if target.place.embedded
            else "alarms: the stack has none"
        )
        return
    found = target.client("cloudwatch").describe_alarms(AlarmNames=names)["MetricAlarms"]
    ringing = [each["AlarmDescription"] for each in found if each["StateValue"] == "ALARM"]
    if ringing:
        yield problem(f"alarms: {'; '.join(ringing)}", "the other checks look for the cause")
    else:
        yield ok(f"alarms: none of {len(found)} rings")
