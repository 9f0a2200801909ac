"""`longhaul dlq`: list and show dead letters, redrive them, drop them."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import (
    MANY,
    Afresh,
    AsJson,
    NewerThan,
    OlderThan,
    Only,
    StageOption,
    Yes,
)

app = typer.Typer(
    no_args_is_help=True,
    help="Dead letters: messages that could not succeed, each with its reason.",
)

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="JOB|MESSAGE",
        help="Ids of jobs or messages; eight characters of a message's id are enough.",
    ),
]

Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--class",
        metavar="CLASS",
        help="Only this class, such as failed or invalid_request; may be repeated.",
    ),
]

All = Annotated[bool, typer.Option("--all", help="All of them; instead of any filter.")]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count them, by class.")]


@app.command("list")
@on_target
def list_letters(
    *,
    names: Names = None,
    kinds: Kinds = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    stage: StageOption = None,
    limit: Annotated[int, typer.Option(min=1, max=MANY, help="At most this many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List dead letters with their class and reason.

    SQS cannot show a message without receiving it: while the list is made, the letters are
    invisible to others.

    Example: longhaul dlq list --class failed --newer-than 1d
    """


@app.command()
@on_target
def show(
    *,
    name: Annotated[
        str, typer.Argument(metavar="JOB|MESSAGE", help="Id of a job or of a message.")
    ],
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a whole dead letter: its reason, and the message that was sent.

    Example: longhaul dlq show flights-2013-01
    """


@app.command()
@on_target
def redrive(  # noqa: PLR0913 - filters
    *,
    names: Names = None,
    kinds: Kinds = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    all_: All = False,
    afresh: Afresh = False,
    only: Only = False,
    stage: StageOption = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Send dead letters back to the jobs queue: each job starts a new run under its old id.

    Each letter is sent with its old body and attributes, and then deleted: an interrupt loses
    none, and no job runs twice. A job goes on from what it has stored, if it has. The id of a
    success means the dead jobs that descend from it.

    Example: longhaul dlq redrive --class interrupted --dry-run

    Example: longhaul dlq redrive flights-2013-01 --yes
    """


@app.command()
@on_target
def drop(  # noqa: PLR0913 - filters
    *,
    names: Names = None,
    kinds: Kinds = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    all_: All = False,
    stage: StageOption = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete dead letters for good.

    Save them before, if you need them, with `longhaul dlq list --json`.

    Example: longhaul dlq drop --class invalid_request --older-than 7d
    """
