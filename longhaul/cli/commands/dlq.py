"""`longhaul dlq`: list, show and drop dead letters. `longhaul rerun` runs their jobs again."""

from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import (
    MANY,
    AsJson,
    DryRun,
    Kinds,
    NewerThan,
    OlderThan,
    StageOption,
    Yes,
)
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from longhaul.cli.target import Target


app = typer.Typer(
    no_args_is_help=True,
    help="Dead letters: messages that could not succeed, each with its reason.",
)

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="JOB|MESSAGE",
        help="Ids or labels of jobs, or ids of messages, of which eight characters are enough.",
    ),
]


@app.command("list")
@on_target
def list_letters(
    target: "Target",
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
    from longhaul.cli.display.dead_letter import COLUMNS, SHOWN, named, record_of, row_of
    from longhaul.cli.terminal.letters import check_found
    from longhaul.operations.dead_letters import Which

    out = Output(as_json=as_json)
    which = Which(tuple(names or ()), tuple(kinds or ()), older_than, newer_than)
    with closing(target.dead_letters.look_in(target.stages(stage), which)) as letters:
        found = list(islice(letters, limit + 1))
    now, missing = target.parts.clock.now(), set(which.names)
    for letter, of in found[:limit] if as_json else ():
        out.record(record_of(letter, of))
    rows = [row_of(letter, of.name, now) for letter, of in found[:limit]]
    if rows and not as_json and out.data.is_terminal:
        out.table(SHOWN, map(named, rows))
    elif not as_json:
        out.table(COLUMNS, rows)
    if len(found) > limit:
        missing.clear()  # they may be among those that were not looked at
        out.note("there are more: raise --limit, or filter")
    elif not found:
        out.note("no dead letter matches" if which != Which() else "no dead letters")
    missing.difference_update(*(which.names_of(letter) for letter, _ in found))
    check_found(which, len(found), missing)


@app.command()
@on_target
def show(
    target: "Target",
    *,
    name: Annotated[
        str, typer.Argument(metavar="JOB|MESSAGE", help="Id or label of a job, or a message's id.")
    ],
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a whole dead letter: its reason, and the message that was sent.

    Example: longhaul dlq show flights-2013-01
    """
    from longhaul.cli.display.dead_letter import page_of, record_of
    from longhaul.cli.terminal.letters import check_found
    from longhaul.operations.dead_letters import Which

    out, which = Output(as_json=as_json), Which(names=(name,))
    found = list(target.dead_letters.look_in(target.stages(stage), which))
    for letter, each in found:
        if as_json:
            out.record(record_of(letter, each))
            continue
        out.fields(page_of(letter, each, target.parts.clock.now()))
        out.line("")
        out.line(letter.content.body)
    check_found(which, len(found), () if found else which.names)


@app.command()
@on_target
def drop(
    target: "Target",
    *,
    names: Names = None,
    kinds: Kinds = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All of them; instead of any filter.")
    ] = False,
    stage: StageOption = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete dead letters for good.

    Save them before, if you need them, with `longhaul dlq list --json`.

    Example: longhaul dlq drop --class invalid_request --older-than 7d
    """
    from longhaul.cli.terminal.letters import handle_letters
    from longhaul.operations.dead_letters import Which

    out = Output(as_json=as_json)
    which = Which(tuple(names or ()), tuple(kinds or ()), older_than, newer_than)
    if (which == Which()) != all_:
        raise CommandError(
            "say which: ids, --class, --older-than, --newer-than, or --all"
            if not all_
            else "--all means all: leave out the other filters",
            ExitStatus.USAGE,
        )
    handle_letters(
        out,
        target,
        target.stages(stage),
        which,
        "drop",
        target.dead_letters.drop,
        yes=yes,
        dry_run=dry_run,
    )
