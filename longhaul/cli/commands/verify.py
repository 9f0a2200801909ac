"""`longhaul verify`."""

from typing import TYPE_CHECKING

import typer

from longhaul.cli.checks.finding import Level
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import AsJson, StageOption
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from longhaul.cli.target import Target

_COLUMNS = ("verdict", "case", "expected", "what happened")


@on_target
def verify(
    target: "Target",
    *,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Try a deployed stack with small jobs: do they end as they must?

    One job succeeds, one fails once, one cannot succeed, one is sent twice, one is cancelled, one
    loses its task and one its execution, the output of one is a table, and one runs on EMR
    Serverless, if the stack has these; a further message is no request. For each it says what was
    expected and what happened; `longhaul status JOB --history` says how long each step took.

    Dead letters and outputs are deleted afterwards; alarms on dead letters may ring. The exit code
    is 1 if a case failed. It takes some ten minutes on AWS and a few cents, with at most four tasks
    at a time. Without --stage the jobs go to the first stage that leads to no other.

    Example: longhaul verify --profile production
    """
    from longhaul.operations.verify import Run
    from longhaul.operations.verify_cases import stage_for

    out = Output(as_json=as_json)
    where = stage_for(target.settings, stage)
    _refuse_if_nothing_starts(target)
    out.say_where(target)
    run = Run(target, where, out.note)
    try:
        results = run.results()
    finally:
        out.note("cancelling what runs still, and deleting outputs and dead letters")
        run.close()
    records = (
        {
            "case": each.case,
            "verdict": each.verdict,
            "expected": each.expected,
            "happened": each.happened,
            "do": each.do or None,
        }
        for each in results
    )
    rows = [(each.verdict, each.case, each.expected, each.happened) for each in results]
    out.listing(records, _COLUMNS, rows)
    for each in results:
        if each.do:
            out.note(f"{each.case}: → {each.do}", style="yellow")
    if not all(each.is_good for each in results):
        raise typer.Exit(ExitStatus.FAILED)


def _refuse_if_nothing_starts(target: "Target") -> None:
    """Nothing would ever start, and each case would wait for its whole patience."""
    from longhaul.cli.checks.stack import mappings, slots

    found = (*mappings(target), *slots(target))
    problems = [each for each in found if each.level is Level.PROBLEM]
    if problems:
        raise CommandError("; ".join(f"{each.what} → {each.do}" for each in problems))
