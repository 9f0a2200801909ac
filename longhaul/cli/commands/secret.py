"""`longhaul secret`: what the jobs of stages read when an attempt begins."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import AsJson, StageOption

app = typer.Typer(
    no_args_is_help=True,
    help="Secrets: what the stages' `secrets` name (docs/secrets.md).",
)


@app.command("list")
@on_target
def list_secrets(*, stage: StageOption = None, as_json: AsJson = False) -> None:
    """List the secrets of the stages, and whether they are there. No value is read.

    Example: longhaul secret list
    """


@app.command("set")
@on_target
def set_secret(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the variable.")],
    stage: StageOption = None,
) -> None:
    """Give a secret a value in the embedded AWS, from a prompt without echo, or from a pipe.

    The next attempt reads it. It is kept between starts, in the work directory. In an account use
    the tools of AWS: rights, keys and rotation are there.

    Example: longhaul secret set DB_PASSWORD < password.txt
    """
