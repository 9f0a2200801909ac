"""The results as one self-contained HTML page."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from longhaul.cli.display.document import document
from longhaul.cli.display.timeline_html import text, timeline_html
from longhaul.cli.insight.timeline import Lane

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Headings and rows."""


def page(subject: str, cases: Table, steps: Table, lanes: Sequence[Lane], at: datetime) -> str:
    """What happened in `subject`, such as a stack, until then."""
    return document(
        f"Acceptance test: {subject}",
        f"<p class=dim>{at:%Y-%m-%d %H:%M:%S} UTC</p>"
        f"<h2>Cases</h2>{_table(*cases)}<h2>How long each step took</h2>{_table(*steps)}"
        f"<h2>Timeline</h2>{timeline_html(lanes, at)}",
    )


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th scope=col>{text(each)}</th>" for each in headings)
    body = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class=wide tabindex="0" role=group aria-label="{text(headings[0])}; scrolls">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
