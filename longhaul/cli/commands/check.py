"""`longhaul check`."""

import json
import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.checks.finding import Finding, Level, skipped
from longhaul.cli.display.text import counted
from longhaul.cli.errors import ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import AsJson
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from longhaul.cli.target import Target


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

    Of a stack: its state and version, mappings, slots (a paused stage is named), the secrets of its
    stages, dead letters and alarms. Of the next deployment, or of the first one: what it needs of
    the account and of this machine, and whether it would delete queues that are in use. It changes
    nothing.

    With --change-set it checks the next deployment alone, and has CloudFormation make a change set,
    which is never executed and is deleted at once: that checks properties, names that are taken,
    quotas and hooks, and says what would be replaced.

    The exit code is 1 if there is a problem (docs/deploy.md#the-checks).

    Example: longhaul check --profile production

    Example: longhaul check --change-set
    """
    from longhaul.cli.checks.listed import tell

    out = Output(as_json=as_json)
    given = context or ()
    findings = _of_change_set(out, target, given) if change_set else _findings(out, target, given)
    counts = tell(out, findings)
    out.note(
        f"{counted(counts[Level.PROBLEM], 'problem')}, "
        f"{counted(counts[Level.WARNING], 'warning')}, "
        f"{counts[Level.OK]} ok, {counts[Level.SKIPPED]} not checked"
    )
    if counts[Level.PROBLEM]:
        raise typer.Exit(ExitStatus.FAILED)


def _findings(out: Output, target: "Target", context: Sequence[str]) -> Iterator[Finding]:
    """What is found of the stack and its next deployment, or of the first one."""
    from longhaul.cli.checks.listed import of_deployment, of_stack
    from longhaul.cli.checks.plan import Plan, given_settings, plan_of
    from longhaul.operations.errors import NoSuchStackError

    out.say_where(target)
    settings = given_settings(context)
    is_planned = target.stack == settings.stack_name and not target.place.endpoint
    try:
        _ = target.deployment
    except NoSuchStackError:
        if not is_planned:
            raise
        yield skipped(f"stack: {target.stack} is not deployed yet")
        yield from of_deployment(plan_of(settings, target.place.profile))
    else:
        yield from of_stack(target, Plan(target, settings) if is_planned else None)


def _of_change_set(out: Output, target: "Target", context: Sequence[str]) -> Iterator[Finding]:
    from longhaul.cli.checks.change_set import asked
    from longhaul.cli.checks.listed import of_deployment
    from longhaul.cli.checks.plan import given_settings, plan_of

    plan = plan_of(given_settings(context), target.place.profile)
    out.say_where(plan.target)
    yield from of_deployment(plan)
    template = _template(plan.target.stack, context)
    yield from asked(plan, template, secrets.token_hex(3), time.sleep, out)


def _template(stack: str, context: Sequence[str]) -> str:
    """What would be deployed, as short as JSON can be."""
    from longhaul.cli.commands.deploy import synthesized

    with tempfile.TemporaryDirectory(prefix="longhaul-check-") as folder:
        synthesized(Path(folder), context)
        content = json.loads((Path(folder) / f"{stack}.template.json").read_text())
    return json.dumps(content, separators=(",", ":"))
