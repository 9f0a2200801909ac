"""The result as one self-contained HTML page: cases, legs, timeline, soak."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from longhaul.cli.acceptance.soak import Minute, Soak
from longhaul.cli.acceptance.verdicts import Result, Verdict
from longhaul.cli.display.document import CASES_CSS, document
from longhaul.cli.display.timeline_html import text, timeline_html
from longhaul.cli.insight.timeline import Lane

_MARKS: Final = {Verdict.PASSED: "✓", Verdict.FAILED: "✗", Verdict.NOT_RUN: "○"}


@dataclass(frozen=True)
class Page:
    """The results for a `subject`, such as a stack."""

    subject: str
    begun_at: datetime
    ended_at: datetime
    results: Sequence[Result]
    lanes: Sequence[Lane]
    soak: Soak | None = None

    def html(self) -> str:
        return document(
            f"Acceptance test: {self.subject}",
            f"<p class=dim>{self._scope()}</p>{self._figures()}"
            f"<h2>Cases</h2>{self._cases()}<h2>How long each leg took</h2>{self._legs()}"
            f"<h2>Timeline</h2>{timeline_html(self.lanes, self.ended_at)}{self._soak()}",
            CASES_CSS,
        )

    def _scope(self) -> str:
        return (
            f"From {self.begun_at:%Y-%m-%d %H:%M:%S} to {self.ended_at:%H:%M:%S}. "
            "All times are UTC."
        )

    def _figures(self) -> str:
        counts = Counter(each.verdict for each in self.results)
        unusual = sum(not timing.is_usual for each in self.results for timing in each.timings)
        figures = [
            (f"{counts[Verdict.PASSED]} of {len(self.results)}", "cases passed", ""),
            (counts[Verdict.FAILED], "failed", "failed" if counts[Verdict.FAILED] else ""),
            (counts[Verdict.NOT_RUN], "not run", "odd" if counts[Verdict.NOT_RUN] else ""),
            (unusual, "legs outside their range", "odd" if unusual else ""),
        ]
        return (
            "<dl class=figures>"
            + "".join(
                f'<div><dt>{what}</dt><dd class="{css}">{n}</dd></div>' for n, what, css in figures
            )
            + "</dl>"
        )

    def _cases(self) -> str:
        rows = "".join(
            f'<tr class="{_css(each.verdict)}">'
            f"<td>{_MARKS[each.verdict]} {text(each.verdict.value)}</td>"
            f"<th scope=row>{text(each.name)}<small>{text(each.what)}</small></th>"
            f"<td>{text(each.expected)}</td>"
            f"<td>{text(each.happened)}{_do(each)}</td></tr>"
            for each in self.results
        )
        return _table(("", "case", "expected", "what happened"), rows, "cases")

    def _legs(self) -> str:
        rows = "".join(
            f'<tr class="{"" if timing.is_usual else "odd"}"><td>{text(each.name)}</td>'
            f"<td>{text(timing.job_id)}</td><td>{timing.attempt}</td>"
            f"<td>{text(timing.leg.value)}</td><td class=number>{timing.seconds:.1f} s</td>"
            f"<td class=number>{text(timing.expected)}</td>"
            f"<td>{'' if timing.is_usual else 'outside'}</td></tr>"
            for each in self.results
            for timing in each.timings
        )
        note = (
            "<p class=dim>From the rows of the jobs. The end of a leg that ends with a deletion is "
            "seen within a second, a kill by the clock of the machine that sent it. A leg outside "
            "its range is worth a look, and no failure.</p>"
        )
        headings = ("case", "job", "attempt", "leg", "took", "expected", "")
        return _table(headings, rows, "legs") + note if rows else "<p>None.</p>"

    def _soak(self) -> str:
        if self.soak is None:
            return ""
        minutes = self.soak.minutes
        rows = "".join(
            f"<tr><td>{each.begin:%H:%M:%S}</td><td class=number>{each.receives}</td>"
            f"<td class=number>{each.deletes}</td>"
            f"<td class=number>{'' if each.wait_s is None else f'{each.wait_s:.1f} s'}</td>"
            f"<td>{_bar(each, minutes)}</td></tr>"
            for each in minutes
        )
        headings = ("minute", "receives", "deletes", "median wait", "wait")
        return f"<h2>Soak</h2><p>{text(self.soak.result.happened)}.</p>" + _table(
            headings, rows, "soak"
        )


def _css(verdict: Verdict) -> str:
    return {Verdict.PASSED: "passed", Verdict.FAILED: "failed", Verdict.NOT_RUN: "odd"}[verdict]


def _do(result: Result) -> str:
    return f"<small>→ {text(result.do)}</small>" if result.do else ""


def _bar(minute: Minute, minutes: Sequence[Minute]) -> str:
    longest = max(each.wait_s or 0 for each in minutes) or 1
    width = round(120 * (minute.wait_s or 0) / longest)
    return (
        f'<svg width="120" height="10" aria-hidden="true"><rect width="{width}" height="10"/></svg>'
    )


def _table(headings: Sequence[str], rows: str, css: str) -> str:
    head = "".join(f"<th scope=col>{text(each)}</th>" for each in headings)
    return (
        f'<div class=wide tabindex="0" role=group aria-label="{css.capitalize()}; scrolls">'
        f'<table class="{css}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
