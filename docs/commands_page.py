"""The commands of docs/reference/cli.md: `python -m docs.commands_page` writes them.

Each is what its `--help` says, without the options that choose the place, which all share. A page
that the help names (`docs/deploy.md#the-checks`) becomes a link.
"""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer.main

from longhaul.cli.cli import app
from longhaul.cli.terminal.options import WHERE

PAGE: Final = Path(__file__).resolve().parent / "reference" / "cli.md"
BEGIN: Final = "<!-- From here on `python -m docs.commands_page` writes the page. -->"
_SPECIAL: Final = re.compile(r"(?P<code>`[^`]*`)|(?P<option>--[a-z][a-z-]*)|docs/(?P<page>\S+\w)")
# What `--help` has in a column of its own, such as `<int range>`.
_TYPE: Final = re.compile(r" <(?:list\[)?([^]>]*?)(?: range)?\]?>")


def page(before: str) -> str:
    """The page with its commands written again; what stands before them stays."""
    commands: dict[str, Any] = vars(typer.main.get_command(app))["commands"]
    lines = (line for name in commands for line in section(name, commands[name], "##"))
    return "\n".join([f"{before.partition(BEGIN)[0]}{BEGIN}", *lines, ""])


def section(words: str, command: Any, heading: str) -> Iterator[str]:  # noqa: ANN401 - click's types
    """The lines of a command, or of a group and its commands."""
    below = getattr(command, "commands", {})
    prose, *examples = command.help.split("\n\nExample: ")
    yield from ("", f"{heading} {words}")
    for paragraph in prose.split("\n\n"):
        yield from ("", textwrap.fill(_markdown(paragraph), 100, break_on_hyphens=False))
    if not below:
        usage = " ".join(["longhaul", words, *command.collect_usage_pieces(typer.Context(command))])
        shown = (f"$ {each.strip()}".replace("\n", " \\\n    ") for each in examples)
        rows = (_row(each) for each in command.params if each.rich_help_panel != WHERE)
        yield from ("", "```console", *shown, "```", "", f"| `{_cell(usage)}` | |", "|---|---|")
        yield from rows
    for name, each in below.items():
        yield from section(f"{words} {name}", each, f"{heading}#")


def _row(parameter: Any) -> str:  # noqa: ANN401 - as above
    name, text = parameter.get_help_record(typer.Context(typer.main.get_command(app)))
    typed = "" if parameter.param_type_name == "argument" else r" \1"
    return f"| `{_cell(_TYPE.sub(typed, name))}` | {_cell(_markdown(text))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _markdown(text: str) -> str:
    """The text with options as code, and pages as links."""
    return _SPECIAL.sub(_shown, text.replace("<", "&lt;"))


def _shown(found: re.Match[str]) -> str:
    if linked := found["page"]:
        return f"[{linked.partition('#')[0].rpartition('/')[2]}](../{linked})"
    return found["code"] or f"`{found['option']}`"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    sys.stdout.write(f"written: {PAGE.name}\n")
