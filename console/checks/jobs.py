"""The jobs: does the sweeper sweep, is anything stuck, does anything wait for a person."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

from console.checks.finding import Finding, ok, problem, skipped, warning
from console.target import Target
from longhaul.dead_letters import Which
from longhaul.domain.durations import format_duration
from longhaul.domain.health import SWEEP_PERIOD, stuck

_QUIET = SWEEP_PERIOD * 4
_LETTERS_LIVE = timedelta(days=14)
_SOON = timedelta(days=4)
_MAX_NAMED = 5


def sweeps(target: Target) -> Iterator[Finding]:
    """By the metric that its alarm watches."""
    if target.place.embedded:
        yield skipped("sweeper: the embedded AWS keeps no metrics; its log is functions/*Sweeper*.log in the work dir")
        return
    now = target.parts.clock.now()
    points = target.client("cloudwatch").get_metric_statistics(
        Namespace="Longhaul",
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
            f"sweeper: no sweep in the last {format_duration(_QUIET.total_seconds())}: what a crash leaves stays as it is",
            "look at its log and at the queue of undelivered events",
        )


def leases(target: Target) -> Iterator[Finding]:
    """Rows that several sweeps must have seen and not repaired."""
    names = [stage.name for stage in target.settings.stages]
    rows = target.jobs.unfinished(names)
    found = stuck(rows, target.settings.lease, target.parts.clock.now())
    if not found:
        yield ok(f"leases: {len(rows)} unfinished, none of them stuck")
    if found.overdue:
        yield problem(
            f"leases: running, but nobody has beaten for long: {_named(found.overdue)}",
            "is the sweeper running? `longhaul status JOB` names the execution to look at",
        )
    if found.missing:
        yield problem(
            f"leases: released, and their message has not come: {_named(found.missing)}",
            "is the mapping on, and the sweeper running?",
        )
    if found.owed:
        yield problem(
            f"leases: ended, but still owing something for long: {_named(found.owed)}",
            "`longhaul status JOB` says what; the sweeper's log says why it fails",
        )


def dead_letters(target: Target) -> Iterator[Finding]:
    for stage in target.settings.stages:
        now, count = target.parts.clock.now(), 0
        oldest = now
        with closing(target.dead_letters.look(stage, Which())) as letters:
            for letter in letters:
                count += 1
                oldest = min(oldest, letter.sent_at)
        left = _LETTERS_LIVE - (now - oldest)
        if not count:
            yield ok(f"dead letters: none of stage {stage.name}")
        elif left < _SOON:
            yield problem(
                f"dead letters: {count} of stage {stage.name}; SQS drops the oldest in {format_duration(max(0.0, left.total_seconds()))}",
                "`longhaul dlq list --older-than 10d`, then redrive or drop",
            )
        else:
            yield warning(
                f"dead letters: {count} of stage {stage.name}", "`longhaul dlq list` says why; then redrive or drop"
            )


def alarms(target: Target) -> Iterator[Finding]:
    names = list(target.physical("AWS::CloudWatch::Alarm").values())
    if target.place.embedded or not names:
        yield skipped("alarms: the embedded AWS has none" if target.place.embedded else "alarms: the stack has none")
        return
    found = target.client("cloudwatch").describe_alarms(AlarmNames=names)["MetricAlarms"]
    ringing = [each["AlarmDescription"] for each in found if each["StateValue"] == "ALARM"]
    if ringing:
        yield problem(f"alarms: {'; '.join(ringing)}", "the checks here say what is behind it")
    else:
        yield ok(f"alarms: none of {len(found)} rings")


def _named(keys: tuple[str, ...]) -> str:
    more = f" and {len(keys) - _MAX_NAMED} more" if len(keys) > _MAX_NAMED else ""
    return ", ".join(key.partition("#")[2] for key in keys[:_MAX_NAMED]) + more
