"""The dead letters that a command means: counted, asked about, and handled one at a time."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from operator import itemgetter

import typer

from longhaul.cli.display.dead_letter import name_of
from longhaul.cli.display.text import counted, printable
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.target import Target
from longhaul.cli.terminal.output import Output
from longhaul.operations.dead_letters import Handled, Which
from longhaul.operations.letter import CLASSES, DeadLetter
from longhaul.settings import Stage

Act = Callable[[Stage, Which, Callable[[DeadLetter], None]], Handled]


def handle_letters(
    out: Output,
    target: Target,
    stages: Iterable[Stage],
    which: Which,
    what: str,
    act: Act,
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Count the letters by class, ask, then handle exactly those; later ones are left alone.

    Args:
        out: where to.
        target: where they are.
        stages: whose letters.
        which: those that are meant.
        what: what is done to them, in words.
        act: does it.
        yes: whether it goes on without a question.
        dry_run: whether they are only counted.

    Raises:
        CommandError: a name means none, or the answer is no.
        typer.Exit: some could not be handled.
    """
    out.say_where(target)
    found: list[tuple[Stage, Counter[str], frozenset[str]]] = []
    missing = set(which.names)
    for stage in stages:
        kinds = dict[str, str]()  # by message id: there may be many, so without their bodies
        with closing(target.dead_letters.look(stage, which)) as letters:
            for letter in letters:
                kinds[letter.message_id] = letter.kind
                missing -= which.names_of(letter)
        found.append((stage, Counter(kinds.values()), frozenset(kinds)))
    total = sum(len(ids) for _, _, ids in found)
    check_found(which, total, missing)
    for stage, classes, ids in found:
        named = ", ".join(f"{count} {printable(kind)}" for kind, count in classes.most_common())
        out.note(
            f"{stage.name}: {counted(len(ids), 'dead letter')}: {named}"
            if ids
            else f"{stage.name}: no dead letter matches"
        )
    if dry_run or not total:
        return
    out.confirm(f"{what} {counted(total, 'dead letter')}?", yes=yes)
    done = 0
    for stage, _, ids in filter(itemgetter(2), found):
        handled = act(stage, Which(message_ids=ids), lambda letter: _did(out, letter))
        for letter, problem in handled.failed:
            out.note(f"{name_of(letter)}: not done: {problem}", style="red")
        if gone := len(ids) - handled.done - len(handled.failed):
            out.note(
                f"{stage.name}: {gone} were no longer there, or another process holds them",
                style="yellow",
            )
        done += handled.done
    out.note(f"{what}: {done} done" + (f", {total - done} not" if done < total else ""))
    if done < total:
        raise typer.Exit(ExitStatus.FAILED)


def check_found(which: Which, count: int, missing: Collection[str]) -> None:
    """End the command if a name meant no letter, or a class that no letter has is misspelled.

    Raises:
        CommandError: so it is.
    """
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


def _did(out: Output, letter: DeadLetter) -> None:
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
