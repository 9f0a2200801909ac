"""The options that commands share, each under one name and with one meaning."""

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from longhaul.core.durations import parse_duration_s

WHERE = "Where"


Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        help="AWS profile; naming one means AWS, not the embedded one.",
        rich_help_panel=WHERE,
    ),
]
Region = Annotated[
    str | None,
    typer.Option(
        "--region",
        help="AWS region; naming one means AWS, not the embedded one.",
        rich_help_panel=WHERE,
    ),
]
Stack = Annotated[
    str | None,
    typer.Option(
        "--stack",
        help="Name of the stack.",
        show_default="the project's, or Longhaul",
        rich_help_panel=WHERE,
    ),
]
StageOption = Annotated[str | None, typer.Option("--stage", help="Name of the stage.")]


ShownState = StrEnum("ShownState", "RUNNING RELEASED CANCELLING SUCCEEDED DEAD CANCELLED")
"""The states that a list shows; a queued job has no row, and no line."""


LabelOption = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="GLOB",
        help="Only jobs with this label, such as '2026-10-*': open ones, and of the 10,000 that"
        " ended last.",
    ),
]
TagOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        metavar="NAME=GLOB",
        help="Only jobs with this tag, such as day=2026-10-07; may be repeated.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print data as JSON, one object a line.")]
Afresh = Annotated[
    bool, typer.Option("--afresh", help="Begin at the beginning: leave what a job has stored.")
]
Only = Annotated[bool, typer.Option("--only", help="The job alone, without what descends from it.")]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--class",
        metavar="CLASS",
        help="Only dead letters of this class, such as failed or timed_out; may be repeated.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


REQUEST = "Request"
"""The heading of the options that make one request."""

JobOption = Annotated[
    str | None, typer.Option("--job", help="A job of the stack.", rich_help_panel=REQUEST)
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input", metavar="NAME=PATH", help="An input; may be repeated.", rich_help_panel=REQUEST
    ),
]
OUTPUT = typer.Option(
    "--output",
    metavar="[NAME=]PATH",
    help="Where the output goes: s3://bucket/prefix/, data:prefix/ in the stack's own bucket,"
    " table:NAME in its database, or table://DATABASE/NAME. With a name: a further output; may be"
    " repeated.",
    rich_help_panel=REQUEST,
)
Mode = Annotated[
    str | None,
    typer.Option(
        "--mode",
        help="For an output that exists already: overwrite, append or error; of a table also"
        " overwrite_partitions.",
        rich_help_panel=REQUEST,
    ),
]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="NAME=VALUE",
        help="A parameter; its value is JSON, or else text. May be repeated.",
        rich_help_panel=REQUEST,
    ),
]
Size = Annotated[
    str | None,
    typer.Option("--size", help="tiny, small, medium, large or xlarge.", rich_help_panel=REQUEST),
]
Timeout = Annotated[
    str | None, typer.Option("--timeout", help="Such as 90s, 6h, 2d.", rich_help_panel=REQUEST)
]


WorkDir = Annotated[
    Path | None,
    typer.Option(help="The folder for logs and the synthesized stack.", show_default=".longhaul"),
]

EnforceRoles = Annotated[
    bool,
    typer.Option(
        "--iam/--no-iam", help="Whether functions and tasks may do only what their roles allow."
    ),
]


MANY = 1_000_000
"""The highest value of options that limit a list."""


def age(text: str) -> timedelta:
    try:
        return timedelta(seconds=parse_duration_s(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


OlderThan = Annotated[
    timedelta | None,
    typer.Option(
        "--older-than",
        parser=age,
        metavar="AGE",
        help="Only what is at least that old, such as 2h or 3d.",
    ),
]
NewerThan = Annotated[
    timedelta | None,
    typer.Option(
        "--newer-than",
        parser=age,
        metavar="AGE",
        help="Only what is at most that old, such as 30m.",
    ),
]
