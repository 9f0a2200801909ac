"""`longhaul rehearse`."""

import json
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longhaul.cli.checks.finding import Level
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.extras import require
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.signals import stop_signals

if TYPE_CHECKING:
    from longhaul.cli.checks.deploying import Plan
    from longhaul.config.settings import Settings


def rehearse(
    *,
    profile: Annotated[str | None, typer.Option("--profile", help="AWS profile.")] = None,
    context: Annotated[
        list[str] | None,
        typer.Option(
            "--context", "-c", metavar="KEY=VALUE", help="Settings, as for `longhaul deploy`."
        ),
    ] = None,
) -> None:
    """Ask CloudFormation what it would say to a deployment, and create nothing that stays.

    It makes a change set, which is never executed and is deleted at once: CloudFormation checks
    properties, names that are taken, quotas and hooks, and says what would be replaced.

    The exit code is 1 if there is a problem.

    Example: longhaul rehearse --profile production
    """
    from longhaul.cli import preflight

    require("deploy")
    settings = preflight.given_settings(context or ())
    plan = _plan(settings, profile)
    with stop_signals(), tempfile.TemporaryDirectory(prefix="longhaul-rehearsal-") as folder:
        _synthesize(Path(folder), context or ())
        problems = _asked(Output(), plan, Path(folder))
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
