"""`longhaul doctor`."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import typer

from longhaul.cli.checks.finding import Finding, Level, skipped
from longhaul.cli.display.text import counted
from longhaul.cli.errors import ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import AsJson
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from longhaul.cli.target import Target

_MARKS = {
    Level.OK: ("ok", "green"),
    Level.WARNING: ("!!", "yellow"),
    Level.PROBLEM: ("XX", "red"),
    Level.SKIPPED: ("--", "dim"),
}


@on_target
def doctor(target: "Target", *, as_json: AsJson = False) -> None:
    """Check that everything works, and say what to do about each problem.

    It checks credentials, permissions (by simulation), quotas, the stack and its outputs,
    functions, mappings, slots (a paused stage is named) and rules, the sweeper, stuck jobs, dead
    letters and alarms, whether the stack is the one that would be deployed from here, whether
    stack, project and tool are of one version, and what the next deployment needs: the CDK's
    bootstrap, the role of ECS, and Docker for the image's architecture. It says what the jobs of
    each stage may do, and whether its secrets are there and may be read. It changes nothing; dead
    letters are invisible to others while they are counted. The exit code is 1 if there is a
    problem.

    Example: longhaul doctor --profile production
    """
    from longhaul.cli.checks import account, deploying, jobs, rights, secrets, stack, versions

    # The other checks need these two to pass.
    first = (account.credentials, stack.deployment)

    rest = (
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
    out = Output(as_json=as_json)
    out.note(f"→ {target}")
    counts: Counter[Level] = Counter()
    for check in first:
        for finding in check(target):
            _tell(out, finding, counts)
    for check in rest:
        for finding in _guarded(check, target):
            _tell(out, finding, counts)
    out.note(
        f"{counted(counts[Level.PROBLEM], 'problem')}, "
        f"{counted(counts[Level.WARNING], 'warning')}, "
        f"{counts[Level.OK]} ok, {counts[Level.SKIPPED]} not checked"
    )
    if counts[Level.PROBLEM]:
        raise typer.Exit(ExitStatus.FAILED)


def _guarded(check: "Callable[[Target], Iterator[Finding]]", target: "Target") -> Iterator[Finding]:
    """Run a check. One that is not allowed, or fails, is skipped; the others go on."""
    from botocore.exceptions import BotoCoreError, ClientError

    from longhaul.cli.sentences import translated
    from longhaul.cli.synth import SynthError

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
