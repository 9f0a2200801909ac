"""The dead letters that a command means: counted, asked about, and handled one at a time."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence

import typer

from longhaul.cli.display.dead_letter import name_of
from longhaul.cli.display.text import counted, printable
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.target import Target
from longhaul.cli.terminal.output import Output
from longhaul.core.settings import Stage
from longhaul.operations.dead_letters import Handling, Which
from longhaul.operations.letter import CLASSES

Act = Callable[[Stage, Which], Handling]


def handle_letters(
    out: Output,
    target: Target,
    stages: Sequence[Stage],
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
    # There may be many: without their bodies.
    found = [
        (stage.name, letter.message_id, letter.kind, which.names_of(letter), which.ids_of(letter))
        for letter, stage in target.dead_letters.look_in(stages, which)
    ]
    # A name that is the id of one is not the label of others.
    taken = {each for *_, names in found for each in names}
    ids: dict[str, set[str]] = {stage.name: set() for stage in stages}
    kinds, missing = Counter[tuple[str, str]](), set(which.names)
    for stage_name, message_id, kind, names, own in found:
        if own or not names or names - taken:
            ids[stage_name].add(message_id)
            kinds[stage_name, kind] += 1
            missing -= names
    check_found(which, kinds.total(), missing)
    for (name, kind), count in sorted(kinds.items()):
        out.note(f"{name}: {counted(count, 'dead letter')}: {printable(kind)}")
    if not kinds:
        out.note("no dead letter matches")
    if dry_run or not kinds:
        return
    out.confirm(f"{what} {counted(kinds.total(), 'dead letter')}?", yes=yes)
    done = 0
    for stage in (each for each in stages if ids[each.name]):
        gone = len(ids[stage.name])
        for letter, problem in act(stage, Which(message_ids=frozenset(ids[stage.name]))):
            gone -= 1
            if problem:
                out.note(f"{name_of(letter)}: not done: {problem}", style="red")
            else:
                done += 1
                out.item(
                    {
                        "message_id": letter.message_id,
                        "job_id": letter.job_id,
                        "label": letter.label,
                        "class": letter.kind,
                    },
                    letter.job_id or letter.message_id,
                )
        if gone:
            out.note(
                f"{stage.name}: {gone} were no longer there, or another process holds them",
                style="yellow",
            )
    left = kinds.total() - done
    out.note(f"{what}: {done} done" + (f", {left} not" if left else ""))
    if left:
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
