"""`longhaul secret`: what the jobs of stages read when an attempt begins."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import AsJson, StageOption
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from longhaul.cli.target import Target
    from longhaul.operations.secrets import StageSecret


COLUMNS = ("STAGE", "VARIABLE", "IS THERE", "WHERE")

app = typer.Typer(
    no_args_is_help=True,
    help="Secrets: what the stages' `secrets` name (docs/stages.md).",
)


@app.command("list")
@on_target
def list_secrets(target: "Target", *, stage: StageOption = None, as_json: AsJson = False) -> None:
    """List the secrets of the stages, and whether they are there. No value is read.

    Example: longhaul secret list
    """
    from longhaul.operations.secrets import is_there, stage_secrets

    out = Output(as_json=as_json)
    chosen = target.stage(stage).name if stage else None
    found = [
        (each, is_there(target, each.ref))
        for each in stage_secrets(target)
        if chosen in (None, each.stage)
    ]
    out.listing(
        (
            {"stage": of.stage, "variable": of.variable, "secret": of.text, "is_there": there}
            for of, there in found
        ),
        COLUMNS,
        [(of.stage, of.variable, "yes" if there else "missing", of.text) for of, there in found],
    )
    if not found and not as_json:
        out.note("no stage of the stack has secrets: docs/stages.md says how one gets some")


@app.command("set")
@on_target
def set_secret(
    target: "Target",
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the variable.")],
    stage: StageOption = None,
) -> None:
    """Give a secret a value in the embedded AWS, from a prompt without echo, or from a pipe.

    The next attempt reads it. It is kept between starts, in the work directory. Of a secret with a
    key (`:password::`) only that key changes. In an account use the tools of AWS: rights, keys and
    rotation are there.

    Example: longhaul secret set DB_PASSWORD < password.txt
    """
    from longhaul.operations.secrets import put

    out = Output()
    if not target.place.embedded:
        raise CommandError(
            f"{target.where} is no embedded AWS: set it with aws secretsmanager put-secret-value, "
            "or aws ssm put-parameter --overwrite",
            ExitStatus.USAGE,
        )
    secret = _chosen(target, name, stage)
    out.say_where(target)
    value = _asked(name)
    try:
        put(target, secret.ref, value)
    except ValueError as error:
        raise CommandError(f"{secret.ref.arn}: {error}", ExitStatus.FAILED) from error
    out.note(f"{name} of stage {secret.stage} is set: the next attempt reads it")


def _chosen(target: "Target", name: str, stage: str | None) -> "StageSecret":
    from longhaul.operations.secrets import stage_secrets

    chosen = target.stage(stage).name if stage else None
    every = list(stage_secrets(target))
    found = [each for each in every if each.variable == name and chosen in (None, each.stage)]
    if not found:
        known = ", ".join(sorted({each.variable for each in every})) or "none"
        raise CommandError(
            f"no stage has a secret {name}; there are: {known}", ExitStatus.NOT_FOUND
        )
    if len({each.text for each in found}) > 1:
        stages = ", ".join(each.stage for each in found)
        raise CommandError(
            f"{name} is another secret in each of the stages {stages}: name one with --stage",
            ExitStatus.USAGE,
        )
    return found[0]


def _asked(name: str) -> str:
    if sys.stdin.isatty():
        value: str = typer.prompt(name, hide_input=True, err=True)
    else:
        value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not value:
        raise CommandError(f"no value was given for {name}", ExitStatus.USAGE)
    return value
