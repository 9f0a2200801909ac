"""What a command prints: data on stdout, everything else on stderr."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from longhaul.cli.display.text import printable
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.table import Table

STYLES = {
    "QUEUED": "dim",
    "RUNNING": "cyan",
    "RELEASED": "yellow",
    "CANCELLING": "magenta",
    "UNREADABLE": "red",
    "SUCCEEDED": "green",
    "DEAD": "red",
    "CANCELLED": "magenta",
}


class Output:
    """`as_json`: data as JSON, one object a line, for programs."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.data = Console(highlight=False, markup=False, emoji=False)
        self.err = Console(stderr=True, highlight=False, markup=False, emoji=False)

    def record(self, value: Mapping[str, Any]) -> None:
        # ASCII only, so that it holds no escape sequence and suits every encoding.
        self.write(json.dumps(value))

    def write(self, text: str) -> None:
        """A line of data, unchanged."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def line(self, text: str, style: str = "") -> None:
        """A line of data for people."""
        self.data.print(Text(printable(text), style=style), soft_wrap=True)

    def note(self, text: str, style: str = "dim") -> None:
        """To stderr: progress, explanations, the next step."""
        self.err.print(Text(printable(text, lines=True), style=style), soft_wrap=True)

    def item(self, record: Mapping[str, Any], line: str, style: str = "") -> None:
        """One thing, as JSON for programs or as a line for people."""
        if self.as_json:
            self.record(record)
        else:
            self.line(line, style)

    def listing(
        self,
        records: Iterable[Mapping[str, Any]],
        columns: Sequence[str],
        rows: Iterable[Sequence[str]],
    ) -> None:
        """The same things as JSON for programs or as a table for people."""
        if self.as_json:
            for each in records:
                self.record(each)
        else:
            self.table(columns, rows)

    def say_where(self, target: object) -> None:
        """Name the place before a change: whether an embedded AWS runs decides which one it is."""
        self.note(f"→ {target}")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Aligned on a terminal; tab-separated through a pipe, and without a heading."""
        if not self.data.is_terminal:
            for row in rows:
                self.write("\t".join(printable(cell) for cell in row))
            return
        shown = [[printable(cell) for cell in row] for row in rows]
        self.data.print(Table(columns, shown, STYLES))

    def jobs(self, rows: Iterable[Sequence[str]]) -> None:
        """Jobs, as `display.job.row_of` has them: by names on a terminal, by ids in a pipe."""
        from longhaul.cli.display.job import COLUMNS  # noqa: PLC0415 - loads all settings

        if self.data.is_terminal:
            self.table(("job", *COLUMNS[2:]), [[name, *rest] for name, _, _, *rest in rows])
        else:
            self.table(COLUMNS, (ids for _, *ids in rows))

    def fields(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Names and values, aligned."""
        shown = [(name, value) for name, value in pairs if value]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            line = Text.assemble(
                (f"{name:<{width}}  ", "dim"), (printable(value), STYLES.get(value, ""))
            )
            self.data.print(line, soft_wrap=True)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask, and return only after a yes; `yes` is one that was given as an option.

        Raises:
            CommandError: stdin is no terminal, or the answer is no.
        """
        if yes:
            return
        if not is_interactive():
            raise CommandError(
                "stdin is no terminal to ask on: give --yes to go on without", ExitStatus.USAGE
            )
        if not typer.confirm(printable(question), err=True):
            raise CommandError("nothing was done")


def is_interactive() -> bool:
    """Whether there is a person to ask: stdin is a terminal."""
    return sys.stdin.isatty()
