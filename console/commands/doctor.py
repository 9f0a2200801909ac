"""`longhaul doctor`: what is wrong, and what to do."""

from collections import Counter
from collections.abc import Callable, Iterator

import typer
from botocore.exceptions import BotoCoreError, ClientError

from console.checks import account, jobs, stack
from console.checks.finding import Finding, Level, skipped
from console.errors import ExitCode, translated
from console.options import AsJson, on_target
from console.output import Output
from console.target import Target
from local.synth import SynthError

# Without the first two nothing else can be looked at.
_FIRST: tuple[Callable[[Target], Iterator[Finding]], ...] = (account.credentials, stack.deployment)
_REST: tuple[Callable[[Target], Iterator[Finding]], ...] = (
    account.permissions,
    account.quotas,
    stack.functions,
    stack.mappings,
    stack.rules,
    jobs.sweeps,
    jobs.leases,
    jobs.dead_letters,
    jobs.alarms,
    stack.drift,
)
_MARKS = {
    Level.OK: ("ok", "green"),
    Level.WARNING: ("!!", "yellow"),
    Level.PROBLEM: ("XX", "red"),
    Level.SKIPPED: ("--", "dim"),
}


@on_target
def doctor(target: Target, *, as_json: AsJson = False) -> None:
    """Look whether everything is as it should be, and say what to do where it is not.

    Credentials, permissions (by simulation), quotas, the stack and its outputs, functions, mapping and rules, whether the sweeper sweeps, stuck jobs, dead letters,
    alarms, and whether the stack is what this checkout says. Changes nothing; dead letters are invisible to others while they are counted. The exit code is 1 if
    there is a problem.

    Example: longhaul doctor --profile production
    """
    out = Output(as_json=as_json)
    out.note(f"→ {target}")
    counts: Counter[Level] = Counter()
    for check in _FIRST:
        for finding in check(target):
            _tell(out, finding, counts)
    for check in _REST:
        for finding in _guarded(check, target):
            _tell(out, finding, counts)
    out.note(
        f"{counts[Level.PROBLEM]} problems, {counts[Level.WARNING]} warnings, {counts[Level.OK]} ok, {counts[Level.SKIPPED]} not looked at"
    )
    if counts[Level.PROBLEM]:
        raise typer.Exit(ExitCode.FAILED)


def _guarded(check: Callable[[Target], Iterator[Finding]], target: Target) -> Iterator[Finding]:
    """What this one may not look at says nothing about the others."""
    try:
        yield from check(target)
    except (ClientError, BotoCoreError, SynthError) as error:
        said = str(error) if isinstance(error, SynthError) else str(translated(error))
        yield skipped(f"{check.__name__.replace('_', ' ')}: could not be looked at: {said}")


def _tell(out: Output, finding: Finding, counts: Counter[Level]) -> None:
    counts[finding.level] += 1
    if out.as_json:
        out.record({"level": finding.level.value, "what": finding.what, "do": finding.do or None})
        return
    mark, style = _MARKS[finding.level]
    out.line(f"{mark}  {finding.what}", style=style)
    if finding.do:
        out.line(f"    → {finding.do}")
