"""`longhaul check`."""

import json
import secrets
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from longhaul.cli.checks.finding import MARKS, Finding, Level, skipped
from longhaul.cli.display.text import counted
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.extras import require
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import AsJson
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.signals import stop_signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from longhaul.cli.checks.deploying import Plan
    from longhaul.cli.target import Target
    from longhaul.config.settings import Settings


_STYLES: Final = {
    Level.OK: "green",
    Level.WARNING: "yellow",
    Level.PROBLEM: "red",
    Level.SKIPPED: "dim",
}


@on_target
def check(
    target: "Target",
    *,
    context: Annotated[
        list[str] | None,
        typer.Option(
            "--context", "-c", metavar="KEY=VALUE", help="Settings, as for `longhaul deploy`."
        ),
    ] = None,
    change_set: Annotated[
        bool,
        typer.Option(
            "--change-set",
            help="Check the next deployment, and ask CloudFormation what it would say to it.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check what is deployed, or is to be, and say what to do about each problem.

    Of a stack: credentials, permissions (by simulation), quotas, outputs, functions, mappings,
    slots (a paused stage is named), rules, the sweeper, stuck jobs, dead letters and alarms, what
    the jobs of each stage may do, its secrets, whether it is the stack that would be deployed from
    here, and what the next deployment needs. Before there is a stack: what its deployment needs of
    the account and of this machine. It changes nothing; dead letters are invisible to others while
    they are counted.

    With --change-set it checks the next deployment, whether there is a stack or not, and has
    CloudFormation make a change set, which is never executed and is deleted at once: that checks
    properties, names that are taken, quotas and hooks, and says what would be replaced.

    The exit code is 1 if there is a problem (docs/deploy.md#the-checks).

    Example: longhaul check --profile production

    Example: longhaul check --change-set
    """
    out = Output(as_json=as_json)
    if change_set:
        _rehearse(out, target.place.profile, context or ())
        return
    out.note(f"→ {target}")
    counts: Counter[Level] = Counter()
    for finding in _findings(target, context or ()):
        _tell(out, finding, counts)
    out.note(
        f"{counted(counts[Level.PROBLEM], 'problem')}, "
        f"{counted(counts[Level.WARNING], 'warning')}, "
        f"{counts[Level.OK]} ok, {counts[Level.SKIPPED]} not checked"
    )
    if counts[Level.PROBLEM]:
        raise typer.Exit(ExitStatus.FAILED)


def _findings(target: "Target", context: "Sequence[str]") -> "Iterator[Finding]":
    """What is found of the stack, or of its deployment where there is none yet."""
    from longhaul.cli import preflight
    from longhaul.cli.checks import account, deploying, jobs, rights, secrets, stack, versions

    # The other checks need these two to pass.
    yield from account.credentials(target)
    try:
        yield from stack.deployment(target)
    except CommandError as error:
        if target.place.endpoint or error.status is not ExitStatus.NOT_FOUND:
            raise
        settings = preflight.given_settings(context)
        if settings.stack_name != target.stack:
            raise
        require("deploy")
        yield skipped(f"stack: {settings.stack_name} is not deployed yet")
        yield from preflight.findings(settings, target.place.profile)
        return
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
    for each in rest:
        yield from _guarded(each, target)


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
    out.line(f"{MARKS[finding.level]}  {finding.what}", style=_STYLES[finding.level])
    if finding.do:
        out.line(f"    → {finding.do}")


def _rehearse(out: Output, profile: str | None, context: "Sequence[str]") -> None:
    from longhaul.cli import preflight

    require("deploy")
    settings = preflight.given_settings(context)
    plan = _plan(settings, profile)
    problems = preflight.tell(preflight.findings(settings, profile))
    with stop_signals(), tempfile.TemporaryDirectory(prefix="longhaul-rehearsal-") as folder:
        _synthesize(Path(folder), context)
        problems += _asked(out, plan, Path(folder))
    if problems:
        raise typer.Exit(ExitStatus.FAILED)


def _plan(settings: "Settings", profile: str | None) -> "Plan":
    """Raises CommandError: the credentials, the region or the account are not right."""
    from longhaul.cli import preflight
    from longhaul.cli.checks.deploying import Plan

    findings = preflight.place(settings, profile)
    problems = [each for each in findings if each.level is Level.PROBLEM]
    if problems:
        raise CommandError("; ".join(f"{each.what} → {each.do}" for each in problems))
    return Plan(preflight.target_of(settings, profile), settings)


def _synthesize(folder: Path, context: Sequence[str]) -> None:
    from longhaul.cli.commands.deploy import checked_project
    from longhaul.cli.synth import synth

    project = checked_project()
    given: dict[str, object] = {}
    for pair in context:
        key, _, value = pair.partition("=")
        given[key] = value
    synth(folder, profile=None, context=given, project=project.folder if project else None)


def _asked(out: Output, plan: "Plan", folder: Path) -> int:
    """Make the change set, say what CloudFormation finds, and return the number of problems."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    from longhaul.adapters.clock import SystemClock
    from longhaul.cli import preflight
    from longhaul.cli.rehearsal.change_set import Template, checked
    from longhaul.cli.sentences import translated

    identity = plan.target.client("sts").get_caller_identity()
    stack, region = plan.settings.stack_name, plan.target.region
    partition = identity["Arn"].split(":")[1]
    content = json.loads((folder / f"{stack}.template.json").read_text())
    token = secrets.token_hex(3)
    out.say_where(plan.target)
    out.note(
        "it makes, and removes again: a change set, which is never executed; of a stack that is not"
        f" deployed, a stack without resources, {stack}-rehearsal-{token}; and the template in the"
        " bucket of the CDK's bootstrap, if it is too large for a call",
        style="yellow",
    )
    try:
        return preflight.tell(
            checked(
                plan.target,
                Template(content, stack, region, partition),
                bucket=_bucket(folder / f"{stack}.assets.json", identity["Account"], plan),
                token=token,
                clock=SystemClock(),
                warn=out.problem,
            )
        )
    except (ClientError, BotoCoreError) as error:
        raise CommandError(str(translated(error, on_aws=True))) from error
    except ResponseParserError as error:
        # No botocore error: a proxy between, or an endpoint that is not AWS.
        raise CommandError(f"the answer could not be read: {error}") from error


def _bucket(assets: Path, account: str, plan: "Plan") -> str:
    """The bucket of the stack's assets."""
    files: Any = json.loads(assets.read_text())["files"].values()
    destinations = [each for asset in files for each in asset["destinations"].values()]
    bucket = str(destinations[0]["bucketName"])
    return bucket.replace("${AWS::AccountId}", account).replace(
        "${AWS::Region}", plan.target.region
    )
