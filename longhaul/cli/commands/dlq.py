"""`longhaul dlq`: list and show dead letters, redrive them, drop them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
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
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from longhaul.cli.target import Target
    from longhaul.operations.dead_letters import Handled, Which
    from longhaul.operations.letter import DeadLetter
    from longhaul.settings import Stage


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
    from longhaul.operations.dead_letters import Which

    out = Output(as_json=as_json)
    which = _which(names, kinds, older_than, newer_than)
    count, missing, rows = 0, set(which.names), []
    for each in target.stages(stage):
        with closing(target.dead_letters.look(each, which)) as letters:
            page = list(islice(letters, limit + 1))
        rows += [(letter, each) for letter in page[:limit]]
        count += len(page)
        missing.difference_update(*map(which.names_of, page))
        if len(page) > limit:
            missing.clear()  # they may be among those that were not looked at
            out.note(f"{each.name}: there are more: raise --limit, or filter")
        if not page:
            out.note(
                f"{each.name}: no dead letter matches"
                if which != Which()
                else f"{each.name}: no dead letters"
            )
    _print(out, target, rows)
    _check_found(which, count, missing)


@app.command()
@on_target
def show(
    target: "Target",
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
    from longhaul.cli.display.dead_letter import page_of, record_of
    from longhaul.operations.dead_letters import Which

    out = Output(as_json=as_json)
    count = 0
    for each in target.stages(stage):
        with closing(target.dead_letters.look(each, Which(names=(name,)))) as letters:
            matches = list(letters)
        for letter in matches:
            if as_json:
                out.record(record_of(letter, each))
                continue
            out.fields(page_of(letter, each, target.parts.clock.now()))
            out.line("")
            out.line(letter.content.body)
        count += len(matches)
    if not count:
        raise CommandError(
            f"no dead letter of job or message {name}: `longhaul dlq list` shows all",
            ExitStatus.NOT_FOUND,
        )


@app.command()
@on_target
def redrive(
    target: "Target",
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
    from longhaul.cli.display.job import waits_for
    from longhaul.domain.lease import job_key

    out = Output(as_json=as_json)
    which = _filter(names, kinds, older_than, newer_than, all_=all_)
    if not only:
        which = replace(which, names=tuple(_with_trees(target, which.names, stage)))

    def send(stage: "Stage", which: "Which", did: "Callable[[DeadLetter], None]") -> "Handled":
        sent: list[str] = []

        def noted(letter: "DeadLetter") -> None:
            did(letter)
            if letter.job_id:
                sent.append(job_key(stage.name, letter.job_id))

        handled = target.dead_letters.redrive(stage, which, noted, afresh=afresh)
        now = target.parts.clock.now()
        for row in target.parts.leases.load_many(sent).values():
            if why := waits_for(row, now):
                out.note(f"{row.job_id}: {why}")
        return handled

    _handle(
        out,
        target,
        target.stages(stage),
        which,
        "send back",
        send,
        dry_run=dry_run,
        yes=yes,
    )


@app.command()
@on_target
def drop(
    target: "Target",
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
    out = Output(as_json=as_json)
    which = _filter(names, kinds, older_than, newer_than, all_=all_)
    _handle(
        out,
        target,
        target.stages(stage),
        which,
        "drop",
        target.dead_letters.drop,
        dry_run=dry_run,
        yes=yes,
    )


def _which(
    names: list[str] | None,
    kinds: list[str] | None,
    older_than: timedelta | None,
    newer_than: timedelta | None,
) -> "Which":
    from longhaul.operations.dead_letters import Which

    return Which(tuple(names or ()), tuple(kinds or ()), older_than, newer_than)


def _filter(
    names: list[str] | None,
    kinds: list[str] | None,
    older_than: timedelta | None,
    newer_than: timedelta | None,
    *,
    all_: bool,
) -> "Which":
    from longhaul.operations.dead_letters import Which

    which = _which(names, kinds, older_than, newer_than)
    if (which == Which()) != all_:
        raise CommandError(
            "say which: ids, --class, --older-than, --newer-than, or --all"
            if not all_
            else "--all means all: leave out the other filters",
            ExitStatus.USAGE,
        )
    return which


def _handle(
    out: Output,
    target: "Target",
    stages: "Sequence[Stage]",
    which: "Which",
    what: str,
    do: "Callable[..., Handled]",
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Count the letters, ask, then handle exactly those; later ones are left alone."""
    from longhaul.cli.display.dead_letter import name_of
    from longhaul.operations.dead_letters import Which

    out.say_where(target)
    seen = failed = done = 0
    missing = set(which.names)
    for stage in stages:
        matches = []
        with closing(target.dead_letters.look(stage, which)) as letters:
            for letter in letters:
                # Without its body: there may be many letters.
                matches.append(_Brief(letter.message_id, letter.kind))
                missing -= which.names_of(letter)
        seen += len(matches)
        if not matches:
            out.note(f"{stage.name}: no dead letter matches")
            continue
        kinds = ", ".join(
            f"{count} {kind}"
            for kind, count in Counter(each.kind for each in matches).most_common()
        )
        if dry_run:
            out.note(f"{stage.name}: would {what} {len(matches)}: {kinds}")
            continue
        out.confirm(
            f"{stage.name}: {what} {len(matches)} dead letter{'s' * (len(matches) > 1)} ({kinds})?",
            yes=yes,
        )
        ids = frozenset(each.message_id for each in matches)
        handled = do(stage, Which(message_ids=ids), lambda letter: _did(out, letter))
        for letter, problem in handled.failed:
            out.note(f"{name_of(letter)}: not done: {problem}", style="red")
        gone = len(ids) - handled.done - len(handled.failed)
        if gone:
            out.note(
                f"{stage.name}: {gone} were no longer there, or another process holds them",
                style="yellow",
            )
        done += handled.done
        failed += len(handled.failed) + gone
    if not dry_run:
        out.note(f"{what}: {done} done" + (f", {failed} not" if failed else ""))
    if failed:
        raise typer.Exit(ExitStatus.FAILED)
    _check_found(which, seen, missing)


def _check_found(which: "Which", count: int, missing: Collection[str]) -> None:
    """End the command if a name meant no letter, or a class that no letter has is misspelled.

    Raises:
        CommandError: so it is.
    """
    from longhaul.operations.dead_letters import Which
    from longhaul.operations.letter import CLASSES

    unknown = [] if count else sorted(set(which.kinds) - CLASSES)
    if unknown:
        raise CommandError(
            f"no class {', '.join(unknown)}: there are {', '.join(sorted(CLASSES))}",
            ExitStatus.USAGE,
        )
    if missing:
        raise CommandError(
            f"no dead letter of job or message {', '.join(sorted(missing))}"
            f"{' matches' if which != Which(names=which.names) else ''}: "
            "`longhaul dlq list` shows all",
            ExitStatus.NOT_FOUND,
        )


def _with_trees(target: "Target", names: Sequence[str], stage: str | None) -> Iterator[str]:
    """The names; in the place of a success the ids of the jobs below it that are dead."""
    from longhaul.domain.lease import State

    stages = [each.name for each in target.stages(stage)]
    for name in names:
        rows = target.jobs.find(stages, name)
        below = [
            job.job_id
            for row in rows
            if row.state is State.SUCCEEDED
            for job in target.trees.walk(row).all()
            if job.state == State.DEAD
        ]
        yield from below or [name]


class _Brief(NamedTuple):
    message_id: str
    kind: str


def _did(out: Output, letter: "DeadLetter") -> None:
    if out.as_json:
        out.record(
            {
                "message_id": letter.message_id,
                "job_id": letter.job_id,
                "label": letter.label,
                "class": letter.kind,
            }
        )
    else:
        out.line(letter.job_id or letter.message_id)


def _print(out: Output, target: "Target", letters: "Sequence[tuple[DeadLetter, Stage]]") -> None:
    from longhaul.cli.display.dead_letter import COLUMNS, record_of, row_of

    if out.as_json:
        for letter, stage in letters:
            out.record(record_of(letter, stage))
    elif letters:
        now, whole = target.parts.clock.now(), not out.data.is_terminal
        out.table(
            COLUMNS, [row_of(letter, stage.name, now, whole=whole) for letter, stage in letters]
        )
