"""What was expected of each case, what happened, and whether the two agree. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from longhaul.cli.acceptance.cases import Case, Ending
from longhaul.cli.acceptance.legs import Expectations, Timing, timings
from longhaul.cli.acceptance.watcher import Observed
from longhaul.domain.durations import format_duration
from longhaul.domain.history import AttemptRecord
from longhaul.domain.lease import Lease, State

Rows = Mapping[str, int]
"""Rows of the published output, by the key of the job."""


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Result:
    name: str
    what: str
    expected: str
    happened: str
    verdict: Verdict
    timings: Sequence[Timing] = ()
    do: str = ""  # the way out, where there is one


def judge(
    observed: Observed,
    histories: Mapping[str, Sequence[AttemptRecord]],
    rows: Rows,
    expectations: Expectations,
) -> Result:
    """The result of one case, from what was seen of it.

    Args:
        observed: The trial, when it was over.
        histories: The attempts of its jobs, by key.
        rows: What they published.
        expectations: How long each leg may take.
    """
    case = observed.trial.case
    expected, actual = _expected(case), _happened(observed, rows)
    agrees = expected == actual and not observed.is_late
    if observed.is_late:
        waited = format_duration((observed.late_at - observed.sent_at).total_seconds())
        actual = f"not over after {waited}: {actual}"
    if not agrees and (why := _why(observed)):
        actual = f"{actual} ({why})"
    return Result(
        name=case.name,
        what=case.what,
        expected=expected,
        happened=actual,
        verdict=Verdict.PASSED if agrees else Verdict.FAILED,
        timings=list(_timings(observed, histories, expectations)),
        do=""
        if agrees
        else f"`longhaul status {observed.trial.job_id} --history` and `longhaul logs` say more; "
        "then docs/operations.md",
    )


def not_run(case: Case, do: str) -> Result:
    return Result(case.name, case.what, _expected(case), "", Verdict.NOT_RUN, do=do)


def _expected(case: Case) -> str:
    return _summary(
        case.ending, case.letter, [State.SUCCEEDED] * (case.members + 1) if case.members else []
    ) + (f", {case.members + 1} rows joined" if case.members else "")


def _happened(observed: Observed, rows: Rows) -> str:
    case, row = observed.trial.case, observed.row
    ending = None if row is None else _ending(row, rows if not case.members else {})
    letter = " and ".join(observed.letters) or None
    text = _summary(ending, letter, [each.state for each in observed.relatives])
    if not case.members:
        return text
    join = observed.trial.join
    joined = [
        rows[each.key]
        for each in observed.relatives
        if join is not None and each.stage == join.name and each.key in rows
    ]
    return text + "".join(f", {n} rows joined" for n in joined)


def _summary(ending: Ending | None, letter: str | None, relatives: Sequence[State]) -> str:
    parts = [str(ending) if ending else "no job"]
    if letter is not None:
        parts.append(f"dead letter {letter}")
    if relatives:
        counts = [
            f"{relatives.count(state)} {state.value}" for state in State if state in relatives
        ]
        parts.append(f"follow-ons {', '.join(counts)}")
    return "; ".join(parts)


def _ending(row: Lease, rows: Rows) -> Ending:
    return Ending(
        row.state,
        attempts=row.attempt.number,
        failures=row.failures,
        interruptions=row.interruptions,
        rows=rows.get(row.key),
    )


def _why(observed: Observed) -> str:
    """The reasons that the rows give."""
    reasons = [
        f"{row.job_id}: {row.last_class}: {row.last_error}"
        for row in observed.rows
        if row.last_error
    ]
    return "; ".join(reasons)


def _timings(
    observed: Observed,
    histories: Mapping[str, Sequence[AttemptRecord]],
    expectations: Expectations,
) -> Sequence[Timing]:
    all_timings: list[Timing] = []
    for row in observed.rows:
        is_own = row is observed.row
        all_timings += timings(
            row.job_id,
            histories.get(row.key, ()),
            expectations,
            case=observed.trial.case if is_own else None,
            disturbed_at=observed.disturbed_at if is_own else None,
            gone_at=observed.gone_at if is_own else observed.relatives_gone_at.get(row.key),
        )
    return all_timings
