"""The `longhaul` command: its commands, each a module of `longhaul.cli.commands`.

A command is imported when it is typed: with all of them, each would wait for what any of them uses.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TextIO

import typer
from typer.core import TyperGroup
from typer.main import get_group

from longhaul.cli.interrupts import ended_by_interrupt
from longhaul.cli.project import choose
from longhaul.cli.terminal.endings import errors_as_sentences
from longhaul.config.project_file import ENV_VARIABLE, VARIABLE, find
from longhaul.config.sources import version

_BEGIN, _SEND, _LOOK, _ACT, _DEPLOY = "Begin", "Send", "Look", "Act", "Deploy"
_MARKUP: Final = "markdown"
# What is no option of ours is pytest's, or the CDK's.
_PASSED_ON: Final = {"ignore_unknown_options": True}


class _Command(NamedTuple):
    """Where a command is, in `longhaul.cli.commands`, and under which heading the help has it."""

    panel: str
    module: str
    name: str = ""  # of the function, where it is not the module's
    passes_on: bool = False


_COMMANDS: Final[Mapping[str, _Command]] = {
    "init": _Command(_BEGIN, "init"),
    "new": _Command(_BEGIN, "new"),
    "test": _Command(_BEGIN, "run_tests", passes_on=True),
    "up": _Command(_BEGIN, "up"),
    "demo": _Command(_BEGIN, "demo"),
    "submit": _Command(_SEND, "submit"),
    "backfill": _Command(_SEND, "backfill"),
    "status": _Command(_LOOK, "status"),
    "logs": _Command(_LOOK, "logs"),
    "lineage": _Command(_LOOK, "lineage"),
    "cost": _Command(_LOOK, "cost"),
    "console": _Command(_LOOK, "console"),
    "cancel": _Command(_ACT, "cancel"),
    "rerun": _Command(_ACT, "rerun"),
    "dlq": _Command(_ACT, "dlq", "app"),
    "stage": _Command(_ACT, "stage", "app"),
    "check": _Command(_DEPLOY, "check"),
    **{
        name: _Command(_DEPLOY, "deploy", name, passes_on=True)
        for name in ("bootstrap", "diff", "deploy", "destroy")
    },
    "synth": _Command(_DEPLOY, "deploy", "synth"),
    "verify": _Command(_DEPLOY, "verify"),
    "secret": _Command(_DEPLOY, "secret", "app"),
    "table": _Command(_DEPLOY, "table", "app"),
}


class _Imported(Mapping[str, Any]):
    """The commands by name, each imported when it is asked for."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - click's types, which Typer hides
        if name not in self._known:
            self._known[name] = _imported(name, _COMMANDS[name])
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


def _imported(name: str, command: _Command) -> Any:  # noqa: ANN401 - click's types
    with ended_by_interrupt():
        module = import_module(f"longhaul.cli.commands.{command.module}")
        found = getattr(module, command.name or command.module)
    one = typer.Typer(rich_markup_mode=_MARKUP)
    if isinstance(found, typer.Typer):
        one.add_typer(found, name=name, rich_help_panel=command.panel)
    else:
        settings = _PASSED_ON if command.passes_on else None
        one.command(name, rich_help_panel=command.panel, context_settings=settings)(found)
    one.callback()(lambda: None)  # so that it is a group also of one command
    return get_group(one).commands[name]


class Commands(TyperGroup):
    def __init__(self, **arguments: Any) -> None:  # noqa: ANN401 - Typer's own
        super().__init__(**arguments)
        self.commands = _Imported()  # type: ignore[assignment]  # it is only read

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - as above
        """A project has jobs of its own, and is shown no demo."""
        in_project = find(Path.cwd()) is not None
        return [each for each in super().list_commands(ctx) if each != "demo" or not in_project]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as above
        """`--env` is also understood behind the command, where people type it."""
        end = args.index("--") if "--" in args else len(args)
        chosen = [n for n, each in enumerate(args[:end]) if each.partition("=")[0] == "--env"]
        for n in chosen:
            behind = n + (2 if args[n] == "--env" else 1)
            args = [*args[n:behind], *args[:n], *args[behind:]]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - click's types, which Typer hides
        with errors_as_sentences():
            return super().invoke(ctx)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=_MARKUP,
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
    env: Annotated[
        str | None,
        typer.Option(
            "--env",
            metavar="NAME",
            envvar=ENV_VARIABLE,
            help="The environment of the project, a table [env.NAME] of its longhaul.toml; also"
            " behind the command.",
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
    choose(project, env)


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
