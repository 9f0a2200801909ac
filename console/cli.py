"""The `longhaul` command: its commands, each a module of `console.commands`."""

import sys

import typer

from console.commands import dlq
from console.commands.cancel import cancel
from console.commands.console import console
from console.commands.cost import cost
from console.commands.demo import demo
from console.commands.doctor import doctor
from console.commands.history import history
from console.commands.logs import logs
from console.commands.new_job import new_job
from console.commands.replay import replay
from console.commands.report import report
from console.commands.retry import retry
from console.commands.status import status
from console.commands.submit import submit
from console.commands.up import up
from console.group import Commands

_JOBS, _CARE, _LOCAL = "Jobs", "Operation", "On this machine"

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


@app.callback()
def longhaul() -> None:
    """Run PySpark jobs of any length from a queue.

    Speaks to the embedded AWS of this machine while one runs (`longhaul up`), else to AWS with the usual credentials. --profile or --region mean AWS; AWS_ENDPOINT_URL
    means what it names.

    Data goes to stdout, all else to stderr; --json prints data as JSON, one object a line.

    Exit codes: 0 done · 1 a job failed, or something could not be done · 2 used wrongly, or a request is invalid · 3 no such job, stack, log or dead letter · 4 AWS
    cannot be reached or refuses · 130 interrupted: nothing is left half done.
    """


app.command(rich_help_panel=_JOBS)(submit)
app.command(rich_help_panel=_JOBS)(status)
app.command(rich_help_panel=_JOBS)(history)
app.command(rich_help_panel=_JOBS)(logs)
app.command(rich_help_panel=_JOBS)(cancel)
app.command(rich_help_panel=_JOBS)(retry)
app.command(rich_help_panel=_CARE)(console)
app.add_typer(dlq.app, name="dlq", rich_help_panel=_CARE)
app.command(rich_help_panel=_CARE)(cost)
app.command(rich_help_panel=_CARE)(report)
app.command(rich_help_panel=_CARE)(doctor)
app.command(rich_help_panel=_LOCAL)(up)
app.command(rich_help_panel=_LOCAL)(demo)
app.command(rich_help_panel=_LOCAL)(replay)
app.command(rich_help_panel=_LOCAL)(new_job)


def main() -> None:
    """Run the command that was typed."""
    # Where the terminal's encoding lacks a character, it is shown as \\u2026: better than an end in the middle of a list.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    app()


if __name__ == "__main__":
    main()
