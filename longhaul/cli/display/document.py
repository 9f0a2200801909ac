"""A self-contained HTML page, which loads nothing and runs no script, whatever it shows."""

from pathlib import Path
from typing import Final

from longhaul.cli.display.timeline_html import CSS as TIMELINE_CSS
from longhaul.cli.display.timeline_html import text

_CSS: Final = (Path(__file__).parent / "document.css").read_text()
STACKS_CSS: Final = (Path(__file__).parent / "stacks.css").read_text()
"""For tables of the class `stacks`."""


def document(title: str, main: str) -> str:
    """The page with that heading, and `main` as HTML below it."""
    title = text(title)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{_CSS}{STACKS_CSS}{TIMELINE_CSS}</style></head><body><main>"
        f"<h1>{title}</h1>{main}</main></body></html>\n"
    )
