"""What `longhaul doctor` does."""

from collections import Counter
from collections.abc import Callable, Iterator

import typer
from botocore.exceptions import BotoCoreError, ClientError

from longhaul.cli.checks import account, deploying, jobs, rights, secrets, stack, versions
from longhaul.cli.checks.finding import Finding, Level, skipped
from longhaul.cli.display.text import counted
from longhaul.cli.errors import ExitStatus
from longhaul.cli.sentences import translated
from longhaul.cli.synth import SynthError
from longhaul.cli.target import Target
from longhaul.cli.terminal.output import Output

# The other checks need these two to pass.
_FIRST: tuple[Callable[[Target], Iterator[Finding]], ...] = (account.credentials, stack.deployment)

_REST: tuple[Callable[[Target], Iterator[Finding]], ...] = (
    versions.versions,
    account.permissions,
    account.quotas,
    stack.functions,
    stack.mappings,
    stack.slots,
    rights.rights,
    secrets.secrets,
    stack.rules,
    jobs.sweeps,
    jobs.leases,
    jobs.dead_letters,
    jobs.alarms,
    stack.drift,
    deploying.again,
)

_MARKS = {
    Level.OK: ("ok", "green"),
    Level.WARNING: ("!!", "yellow"),
    Level.PROBLEM: ("XX", "red"),
    Level.SKIPPED: ("--", "dim"),
}


def doctor(target: Target, *, as_json: bool) -> None:
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
        f"{counted(counts[Level.PROBLEM], 'problem')}, "
        f"{counted(counts[Level.WARNING], 'warning')}, "
        f"{counts[Level.OK]} ok, {counts[Level.SKIPPED]} not checked"
    )
    if counts[Level.PROBLEM]:
        raise typer.Exit(ExitStatus.FAILED)


def _guarded(check: Callable[[Target], Iterator[Finding]], target: Target) -> Iterator[Finding]:
    """Run a check. One that is not allowed, or fails, is skipped; the others go on."""
    try:
        yield from check(target)
    except (ClientError, BotoCoreError, SynthError) as error:
        text = str(error) if isinstance(error, SynthError) else str(translated(error))
        yield skipped(f"{check.__name__.replace('_', ' ')}: could not be checked: {text}")


def _tell(out: Output, finding: Finding, counts: Counter[Level]) -> None:
    counts[finding.level] += 1
    if out.as_json:
        out.record({"level": finding.level.value, "what": finding.what, "do": finding.do or None})
        return
    mark, style = _MARKS[finding.level]
    out.line(f"{mark}  {finding.what}", style=style)
    if finding.do:
        out.line(f"    → {finding.do}")
