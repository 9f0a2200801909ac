"""The report as one self-contained HTML page and as JSON: without account ids, to be sent."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from longhaul.cli.checks.finding import Level
from longhaul.cli.display.document import CASES_CSS, document
from longhaul.cli.display.timeline_html import text
from longhaul.cli.rehearsal.answer import Answer, Question

_ACCOUNT: Final = re.compile(r"(?<!\d)\d{12}(?!\d)")
VERDICTS: Final = {
    Level.OK: "ok",
    Level.WARNING: "look at it",
    Level.PROBLEM: "problem",
    Level.SKIPPED: "not asked",
}
_STYLES: Final = {
    Level.OK: "passed",
    Level.WARNING: "odd",
    Level.PROBLEM: "failed",
    Level.SKIPPED: "odd",
}


@dataclass(frozen=True)
class Report:
    version: str
    region: str
    partition: str
    asked_at: datetime
    answers: Sequence[tuple[Question, Answer]]

    @property
    def counts(self) -> Counter[Level]:
        return Counter(answer.level for _, answer in self.answers)

    def as_json(self) -> dict[str, Any]:
        return {
            "longhaul": self.version,
            "region": self.region,
            "partition": self.partition,
            "asked_at": self.asked_at.isoformat(),
            "answers": [record(question, answer) for question, answer in self.answers],
        }

    def html(self) -> str:
        figures = "".join(
            f'<div><dt>{text(verdict)}</dt><dd class="'
            f'{_STYLES[level] if self.counts[level] and level is not Level.OK else ""}">'
            f"{self.counts[level]}</dd></div>"
            for level, verdict in VERDICTS.items()
        )
        rows = "".join(
            f'<tr class="{_STYLES[answer.level]}"><td>{text(VERDICTS[answer.level])}</td>'
            f"<th scope=row>{text(question.name)}"
            f"<small>{text(', '.join(question.calls))}</small></th>"
            f"<td>{text(without_account(answer.asked))}</td>"
            f"<td>{text(without_account(answer.answer))}{_do(answer)}</td></tr>"
            for question, answer in self.answers
        )
        head = "".join(
            f"<th scope=col>{each}</th>" for each in ("", "check", "asked", "AWS's answer")
        )
        return document(
            "Rehearsal of a deployment",
            f"<p class=dim>Longhaul {text(self.version)}, {text(self.region)}, "
            f"{self.asked_at:%Y-%m-%d %H:%M} UTC. Account ids are left out.</p>"
            f"<dl class=figures>{figures}</dl>"
            '<div class=wide tabindex="0" role=group aria-label="Checks; scrolls">'
            f'<table class="cases"><thead><tr>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>",
            CASES_CSS,
        )


def record(question: Question, answer: Answer) -> dict[str, Any]:
    """An answer as JSON has it, without account ids."""
    return {
        "check": question.name,
        "calls": list(question.calls),
        "verdict": VERDICTS[answer.level],
        "asked": without_account(answer.asked),
        "answer": without_account(answer.answer),
        "do": without_account(answer.do) or None,
    }


def without_account(said: str) -> str:
    return _ACCOUNT.sub("ACCOUNT", said)


def _do(answer: Answer) -> str:
    return f"<small>→ {text(without_account(answer.do))}</small>" if answer.do else ""
