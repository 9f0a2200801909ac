"""`longhaul verify`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.checks.finding import Level
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import AsJson, StageOption
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longhaul.cli.acceptance.results import Result
    from longhaul.cli.target import Target

_CASES = ("verdict", "case", "expected", "what happened")
_STEPS = ("case", "attempt", "step", "took", "usually at most", "")


@on_target
def verify(
    target: "Target",
    *,
    stage: StageOption = None,
    file: Annotated[Path, typer.Option("--output", "-o", help="Where to write the page.")] = Path(
        "longhaul-verify.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Try a deployed stack with small jobs: do they end as they must, and how soon?

    One job succeeds, one fails once, one cannot succeed, one is sent twice, one is cancelled, one
    loses its task and one its execution, the output of one is a table, and one runs on EMR
    Serverless, if the stack has these; a further message is no request. For each it says what was
    expected, what happened, and how long each step took, beside what is usual: a step that takes
    longer is marked, and no failure.

    Dead letters and outputs are deleted afterwards; alarms on dead letters may ring. The exit code
    is 1 if a case failed. It takes some ten minutes on AWS and a few cents, with at most four tasks
    at a time. Without --stage the jobs go to the first stage that leads to no other.

    Example: longhaul verify --profile production
    """
    from longhaul.cli.acceptance.cases import stage_for
    from longhaul.cli.acceptance.page import page
    from longhaul.cli.acceptance.run import Run
    from longhaul.cli.terminal.selection import lanes_of

    out = Output(as_json=as_json)
    if not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", ExitStatus.USAGE)
    where = stage_for(target.settings, stage)
    _refuse_if_nothing_starts(target)
    out.say_where(target)
    run = Run(target, where, out.note)
    try:
        results = run.results()
    finally:
        out.note("cancelling what runs still, and deleting outputs and dead letters")
        run.close()
    cases = [(each.verdict, each.case, each.expected, each.happened) for each in results]
    steps = [
        (
            each.case,
            str(step.attempt),
            step.name,
            f"{step.seconds:.1f} s",
            f"{step.usual_s:g} s",
            "" if step.is_usual else "longer",
        )
        for each in results
        for step in each.steps
    ]
    lanes = list(lanes_of(target, run.rows))
    now = target.parts.clock.now()
    text = page(str(target), (_CASES, cases), (_STEPS, steps), lanes, now)
    file.write_text(text, encoding="utf-8")
    if as_json:
        _record(out, results)
    else:
        out.table(_CASES, cases)
        out.line("")
        out.table(_STEPS, steps)
    for each in results:
        if each.do:
            out.note(f"{each.case}: → {each.do}", style="yellow")
    out.note(f"page: {file}")
    if not all(each.is_good for each in results):
        raise typer.Exit(ExitStatus.FAILED)


def _refuse_if_nothing_starts(target: "Target") -> None:
    """Nothing would ever start, and each case would wait for its whole patience."""
    from longhaul.cli.checks.stack import mappings, slots

    found = (*mappings(target), *slots(target))
    problems = [each for each in found if each.level is Level.PROBLEM]
    if problems:
        raise CommandError("; ".join(f"{each.what} → {each.do}" for each in problems))


def _record(out: Output, results: "Sequence[Result]") -> None:
    for each in results:
        steps = [
            {
                "attempt": step.attempt,
                "step": step.name,
                "seconds": step.seconds,
                "usual_s": step.usual_s,
            }
            for step in each.steps
        ]
        out.record(
            {
                "case": each.case,
                "verdict": each.verdict,
                "expected": each.expected,
                "happened": each.happened,
                "do": each.do or None,
                "steps": steps,
            }
        )
