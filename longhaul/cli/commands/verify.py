"""`longhaul verify`."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longhaul.cli.checks.finding import Level
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.extras import require
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import AsJson, StageOption, age
from longhaul.cli.terminal.output import Output

if TYPE_CHECKING:
    from longhaul.cli.acceptance.legs import Timing
    from longhaul.cli.acceptance.soak import Soak
    from longhaul.cli.acceptance.verdicts import Result
    from longhaul.cli.target import Target


@on_target
def verify(
    target: "Target",
    *,
    stage: StageOption = None,
    soak: Annotated[
        timedelta | None,
        typer.Option(
            "--soak",
            parser=age,
            metavar="DURATION",
            help="Then send jobs for that long, such as 30m: does the queue stay as fast?",
        ),
    ] = None,
    file: Annotated[Path, typer.Option("--output", "-o", help="Where to write the page.")] = Path(
        "longhaul-verify.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Try a deployed stack with small jobs: do they end as they must, and how soon?

    One job succeeds, one fails once, one cannot succeed, one is sent twice, one is cancelled, one
    loses its task and one its execution, one fans out into two that a third joins, the output of
    one is a table, and one runs on EMR Serverless if the stack has it; a further message is no
    request. For each it says what was expected, what
    happened, and how long each step took. Dead letters and outputs are deleted afterwards; alarms
    on dead letters may ring.

    The exit code is 1 if a case failed. It takes some ten minutes on AWS, and a few cents.

    Example: longhaul verify --profile production

    Example: longhaul verify --soak 30m -o after-deployment.html
    """
    from longhaul.cli.acceptance import cases
    from longhaul.cli.acceptance.page import Page
    from longhaul.cli.acceptance.run import Run
    from longhaul.cli.acceptance.verdicts import Verdict
    from longhaul.cli.terminal.selection import lanes_of

    require("tables", "pyiceberg")  # for the one job whose output is a table
    out = Output(as_json=as_json)
    if not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", ExitStatus.USAGE)
    where = cases.stage_for(target.settings, stage)
    pipeline = cases.pipeline(target.settings)
    _refuse_if_nothing_starts(target)
    out.say_where(target)
    run = Run(out, target, where, pipeline)
    begun_at = target.parts.clock.now()
    try:
        results, seen = run.all_cases()
        soaking = run.soak(soak.total_seconds()) if soak else None
    except BaseException:
        out.note("stopping: cancelling the jobs that run, and clearing up", style="yellow")
        run.abandon()
        raise
    if soaking is not None:
        results.append(soaking.result)
    # The histories stay readable: only dead letters and outputs go.
    lanes = list(lanes_of(target, [row for each in seen for row in each.rows]))
    page = Page(str(target), begun_at, target.parts.clock.now(), results, lanes, soaking)
    file.write_text(page.html(), encoding="utf-8")
    _tell(out, results, soaking)
    out.note(f"page: {file}")
    if any(each.verdict is Verdict.FAILED for each in results):
        raise typer.Exit(ExitStatus.FAILED)


def _refuse_if_nothing_starts(target: "Target") -> None:
    """Nothing would ever start, and each case would wait for its whole patience."""
    from longhaul.cli.checks.stack import mappings, slots

    found = (*mappings(target), *slots(target))
    problems = [each for each in found if each.level is Level.PROBLEM]
    if problems:
        raise CommandError("; ".join(f"{each.what} → {each.do}" for each in problems))


def _tell(out: Output, results: "Sequence[Result]", soaking: "Soak | None") -> None:
    from longhaul.operations.view import iso

    if out.as_json:
        for each in results:
            out.record(_record(each))
        for minute in soaking.minutes if soaking else ():
            out.record(
                {
                    "minute": iso(minute.begin),
                    "receives": minute.receives,
                    "deletes": minute.deletes,
                    "median_wait_s": minute.wait_s,
                }
            )
        return
    out.table(("verdict", "case", "expected", "what happened"), _rows(results))
    out.line("")
    out.table(("case", "attempt", "leg", "took", "expected", ""), _legs(results))
    for each in results:
        if each.do:
            out.note(f"{each.name}: → {each.do}", style="yellow")


def _rows(results: "Sequence[Result]") -> Iterator[Sequence[str]]:
    return ((each.verdict.value, each.name, each.expected, each.happened) for each in results)


def _legs(results: "Sequence[Result]") -> Iterator[Sequence[str]]:
    for each in results:
        for timing in each.timings:
            yield (
                each.name,
                str(timing.attempt),
                timing.leg.value,
                f"{timing.seconds:.1f} s",
                str(timing.expected),
                "" if timing.is_usual else "outside",
            )


def _record(result: "Result") -> dict[str, Any]:
    return {
        "case": result.name,
        "verdict": result.verdict.value,
        "expected": result.expected,
        "happened": result.happened,
        "do": result.do or None,
        "legs": [_leg(each) for each in result.timings],
    }


def _leg(timing: "Timing") -> dict[str, Any]:
    return {
        "job_id": timing.job_id,
        "attempt": timing.attempt,
        "leg": timing.leg.value,
        "seconds": timing.seconds,
        "expected_s": [timing.expected.least, timing.expected.most],
        "usual": timing.is_usual,
    }
