"""What a command prints: data on stdout, everything else on stderr. Nothing that came from outside reaches a terminal raw."""

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from console.errors import CommandError, ExitCode
from console.listing import Listing

STYLES = {
    "QUEUED": "dim",
    "RUNNING": "cyan",
    "RELEASED": "yellow",
    "CANCELLING": "magenta",
    "SUCCEEDED": "green",
    "DEAD": "red",
    "CANCELLED": "magenta",
}
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(text: object, *, lines: bool = False) -> str:
    r"""Without what a terminal would obey or hide: control characters and escape sequences, text direction, and what has no shape. They are shown as `\x1b`.

    `lines` keeps line ends and tabs.
    """
    kept = "\n\t" if lines else ""
    return "".join(
        c if c in kept or unicodedata.category(c) not in _UNPRINTABLE else c.encode("unicode_escape").decode()
        for c in str(text)
    )


class Output:
    """`as_json`: data as JSON, one value a line, for programs."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.data = Console(highlight=False, markup=False, emoji=False)
        self.err = Console(stderr=True, highlight=False, markup=False, emoji=False)

    def record(self, value: Mapping[str, Any]) -> None:
        # ASCII: no escape sequence, and no surprise of an encoding.
        self.write(json.dumps(value))

    def write(self, text: str) -> None:
        """A line of data, as it is."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def line(self, text: str, style: str = "") -> None:
        """A line of data for people."""
        self.data.print(Text(printable(text), style=style), soft_wrap=True)

    def note(self, text: str, style: str = "dim") -> None:
        """To stderr: what happens, what is meant, what to do next."""
        self.err.print(Text(printable(text, lines=True), style=style), soft_wrap=True)

    def problem(self, text: str) -> None:
        self.err.print(Text(f"longhaul: {printable(text, lines=True)}", style="red"), soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Aligned for a terminal; tab-separated without a heading for whoever reads through a pipe."""
        if not self.data.is_terminal:
            for row in rows:
                self.write("\t".join(printable(cell) for cell in row))
            return
        self.data.print(table_of(columns, rows))

    def fields(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Names and values, aligned."""
        shown = [(name, value) for name, value in pairs if value]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            line = Text.assemble((f"{name:<{width}}  ", "dim"), (printable(value), STYLES.get(value, "")))
            self.data.print(line, soft_wrap=True)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Go on only if a person says so, or said so before.

        Raises:
            CommandError: nobody can be asked, or the answer is no.
        """
        if yes:
            return
        if not asked_here():
            raise CommandError("nobody can be asked here: give --yes to go on without", ExitCode.USAGE)
        if not typer.confirm(printable(question), err=True):
            raise CommandError("nothing was done")


def asked_here() -> bool:
    """Whether a person sits at stdin."""
    return sys.stdin.isatty()


def table_of(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Listing:
    return Listing(columns, [[printable(cell) for cell in row] for row in rows], STYLES)
