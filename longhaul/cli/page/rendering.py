"""Renders templates. Every value in one is text: escaped, with invisible characters shown."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from longhaul.cli.display import attempt, dead_letter
from longhaul.cli.display.job import why_of
from longhaul.cli.display.slots import set_by_operator
from longhaul.cli.display.text import age, moment_text, printable, size_text
from longhaul.cli.display.timeline_html import CSS, timeline_html
from longhaul.operations.rerun import possible
from longhaul.operations.runs import bar, run_of, worst
from longhaul.operations.timeline import Lane
from longhaul.operations.tree import progress, unwell

_HERE = Path(__file__).parent
# What only a server could answer. No value can end or begin one of these: each is escaped.
_SERVED = re.compile(
    r'<(header|form|nav|dialog|script|button)\b.*?</\1>|<a class="(?:button|skip)[^>]*>.*?</a>'
    r"|<link\b[^>]*>|</?a\b[^>]*>",
    re.DOTALL,
)
_LOADS_NOTHING = (
    '<meta http-equiv="Content-Security-Policy"'
    " content=\"default-src 'none'; style-src 'unsafe-inline'\">"
)


@dataclass(frozen=True)
class Addresses:
    """The addresses of the page, below the path `root`."""

    root: str

    def of(self, path: str, **query: Any) -> str:  # noqa: ANN401 - any value of a query
        """Values that are None are left out."""
        given = {name: value for name, value in query.items() if value is not None}
        return f"{self.root}{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")

    def of_job(self, key: str, **query: Any) -> str:  # noqa: ANN401 - as above
        """Of the page of a job; that of a run is its root's, or the backfill's."""
        stage, _, job_id = key.partition("#")
        return self.of("/job", stage=stage, id=job_id, **query)


def environment(addresses: Addresses) -> Environment:
    templates = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    templates.globals |= {
        "url": addresses.of,
        "job_url": addresses.of_job,
        "moment": moment_text,
        "timeline": _timeline,
        "lane_url": lambda lane: addresses.of_job(run_of(lane.row)),
        "attempt_columns": attempt.COLUMNS,
        "attempt_cells": attempt.row_of,
        "letter_cells": dead_letter.row_of,
        "why_of": why_of,
        "possible": possible,
        "age": age,
        "bar_of": bar,
        "worst_of": lambda tree: worst(job.state for job in tree.all()),
        "set_by_operator": set_by_operator,
        "progress_of_tree": progress,
        "unwell": unwell,
    }
    templates.filters |= {"clock": _clock, "size": size_text}
    return templates


def static_files() -> dict[str, tuple[bytes, str]]:
    """Content and media type, by name."""
    css = f"{CSS}\n{(_HERE / 'static' / 'page.css').read_text()}"
    return {
        "page.css": (css.encode(), "text/css"),
        "page.js": ((_HERE / "static" / "page.js").read_bytes(), "text/javascript"),
        "icon.svg": ((_HERE / "static" / "icon.svg").read_bytes(), "image/svg+xml"),
    }


def still(html: str, css: str) -> str:
    """A page as it is now: without links, forms and scripts, and with its own styles."""
    head = f"{_LOADS_NOTHING}<style>{css}</style></head>"
    return _SERVED.sub("", html).replace("</head>", head, 1)


def _timeline(
    lanes: list[Lane], now: datetime, link: Callable[[Lane], str] | None = None
) -> Markup:
    # S704 warns of unescaped values: this HTML escapes its own.
    return Markup(timeline_html(lanes, now, link))  # noqa: S704


def _visible(value: Any) -> Any:  # noqa: ANN401 - any value of a template
    return value if isinstance(value, Markup) else printable(value, lines=True)


def _clock(moment: datetime | None) -> str:
    return f"{moment:%H:%M:%S}" if moment else "never"
