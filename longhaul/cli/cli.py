"""The `longhaul` command: its commands, each a module of `longhaul.cli.commands`."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from longhaul.cli.commands import dlq, table
from longhaul.cli.commands.backfill import backfill
from longhaul.cli.commands.cancel import cancel
from longhaul.cli.commands.console import console
from longhaul.cli.commands.cost import cost
from longhaul.cli.commands.demo import demo
from longhaul.cli.commands.deploy import bootstrap, deploy, destroy, diff, preflight, synth
from longhaul.cli.commands.doctor import doctor
from longhaul.cli.commands.drain import drain
from longhaul.cli.commands.history import history
from longhaul.cli.commands.init import init
from longhaul.cli.commands.lineage import lineage
from longhaul.cli.commands.logs import logs
from longhaul.cli.commands.new_job import new_job
from longhaul.cli.commands.pause import pause, resume, slots
from longhaul.cli.commands.rehearse import rehearse
from longhaul.cli.commands.report import report
from longhaul.cli.commands.rerun import rerun
from longhaul.cli.commands.retry import retry
from longhaul.cli.commands.run_tests import run_tests
from longhaul.cli.commands.status import status
from longhaul.cli.commands.submit import submit
from longhaul.cli.commands.up import up
from longhaul.cli.commands.verify import verify
from longhaul.cli.project import choose
from longhaul.cli.terminal.endings import errors_as_sentences
from longhaul.config.project import VARIABLE
from longhaul.config.version import version

_JOBS, _CARE, _LOCAL = "Jobs", "Operation", "On this machine"
_PROJECT = "Your project"


class Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - click's types, which Typer hides
        with errors_as_sentences():
            return super().invoke(ctx)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - Typer's callback
    if wanted:
        typer.echo(f"longhaul {version()}")
        raise typer.Exit


@app.callback()
def longhaul(
    project: Annotated[
        Path | None,
        typer.Option(
            "--project",
            metavar="DIR",
            envvar=VARIABLE,
            help="The project; by default the nearest folder upwards with a longhaul.toml.",
        ),
    ] = None,
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version, and exit."
        ),
    ] = False,
) -> None:
    """Run PySpark jobs of any length from a queue.

    In a project (a folder with longhaul.toml) commands are for its stack and its jobs, elsewhere
    for the stack Longhaul.

    Commands go to the embedded AWS of this machine while one runs (`longhaul up`), else to AWS with
    the usual credentials. --profile or --region means AWS; AWS_ENDPOINT_URL means that endpoint.

    Data goes to stdout, everything else to stderr; --json prints data as JSON, one object a line.

    Exit codes: 0 done · 1 a job failed, or something could not be done · 2 wrong usage, or an
    invalid request · 3 no such job, stack, log or dead letter · 4 AWS cannot be reached or
    refuses · 130 interrupted: nothing is left half done.
    """
    choose(project)


app.command(rich_help_panel=_JOBS)(submit)
app.command(rich_help_panel=_JOBS)(status)
app.command(rich_help_panel=_JOBS)(history)
app.command(rich_help_panel=_JOBS)(logs)
app.command(rich_help_panel=_JOBS)(cancel)
app.command(rich_help_panel=_JOBS)(retry)
app.command(rich_help_panel=_JOBS)(rerun)
app.command(rich_help_panel=_JOBS)(backfill)
app.command(rich_help_panel=_JOBS)(lineage)
app.add_typer(table.app, name="table", rich_help_panel=_JOBS)
app.command(rich_help_panel=_CARE)(console)
app.add_typer(dlq.app, name="dlq", rich_help_panel=_CARE)
app.command(rich_help_panel=_CARE)(cost)
app.command(rich_help_panel=_CARE)(report)
app.command(rich_help_panel=_CARE)(doctor)
app.command(rich_help_panel=_CARE)(verify)
app.command(rich_help_panel=_CARE)(pause)
app.command(rich_help_panel=_CARE)(resume)
app.command(rich_help_panel=_CARE)(slots)
app.command(rich_help_panel=_CARE)(drain)
app.command(rich_help_panel=_LOCAL)(up)
app.command(rich_help_panel=_LOCAL)(demo)
app.command(rich_help_panel=_PROJECT)(init)
app.command(rich_help_panel=_PROJECT)(new_job)
# What is no option of ours is pytest's, or the CDK's.
_PASSED_ON = {"ignore_unknown_options": True}
app.command("test", rich_help_panel=_PROJECT, context_settings=_PASSED_ON)(run_tests)
app.command(rich_help_panel=_PROJECT)(synth)
app.command(rich_help_panel=_PROJECT)(rehearse)
for each in (bootstrap, preflight, diff, deploy, destroy):
    app.command(rich_help_panel=_PROJECT, context_settings=_PASSED_ON)(each)


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def main() -> None:
    """Run the command that was typed."""
    # Python has None for a stream that the shell has closed (`>&-`). Writing to it would be an
    # AttributeError.
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    # A character that the terminal's encoding lacks is shown as \\u2026. An error would end the
    # command in the middle of its output.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    app()


if __name__ == "__main__":
    main()
