"""The jobs: whether the sweeper runs, whether leases are stuck, whether dead letters wait."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta

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
    rows = target.jobs.unfinished(names)
    found = stuck(rows, target.settings.lease, target.parts.clock.now())
    if not found:
        yield ok(f"leases: {len(rows)} unfinished, none of them stuck")
    if found.overdue:
        yield problem(
            f"leases: running, but without a beat for long: {_ids_text(found.overdue)}",
            "is the sweeper running? `longhaul status JOB` names the execution to look at",
        )
    if found.missing:
        yield problem(
            f"leases: released, but their message has not come: {_ids_text(found.missing)}",
            "is the mapping on, and the sweeper running?",
        )
    if found.owed:
        yield problem(
            f"leases: ended, but owing something for long: {_ids_text(found.owed)}",
            "`longhaul status JOB` says what; the sweeper's log says why it fails",
        )


@dataclass(frozen=True)
class Stuck:
    """Keys of leases, by what is wrong."""

    overdue: tuple[str, ...]  # RUNNING, and not renewed for long
    owed: tuple[str, ...]  # ended, and still owing something
    missing: tuple[str, ...]  # RELEASED, and the message has not come

    def __bool__(self) -> bool:
        return bool(self.overdue or self.owed or self.missing)


def stuck(leases: Iterable[Lease], timing: LeaseSettings, now: datetime) -> Stuck:
    """The leases that several sweeps must have seen and not repaired."""
    overdue, owed, missing = [], [], []
    for lease in leases:
        if lease.is_overdue(now, timedelta(seconds=timing.visibility_margin_s) + _PATIENCE):
            overdue.append(lease.key)
        elif (
            lease.state is State.RELEASED
            and lease.unseen_for(now) > timedelta(seconds=timing.missing_after_s) + _PATIENCE
        ):
            missing.append(lease.key)
        elif lease.owed and now > lease.ended_at + _PATIENCE:
            owed.append(lease.key)
    return Stuck(tuple(overdue), tuple(owed), tuple(missing))


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
                "`longhaul dlq list --older-than 10d`, then `longhaul rerun` or drop",
            )
        else:
            yield warning(
                f"dead letters: {count} of stage {stage.name}",
                "`longhaul dlq list` says why; then `longhaul rerun` or drop",
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


def _ids_text(keys: tuple[str, ...]) -> str:
    more = f" and {len(keys) - _MAX_NAMED} more" if len(keys) > _MAX_NAMED else ""
    return ", ".join(key.partition("#")[2] for key in keys[:_MAX_NAMED]) + more
