"""The tables of `docs/internals/lease.md`, for the tests that compare the code with them."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "internals" / "lease.md"


def table(title: str, page: Path = PAGE) -> list[dict[str, str]]:
    """The rows of the first table under a heading of a page, by column."""
    section = re.split(r"\n##+ ", page.read_text().split(f"## {title}\n", 1)[1])[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    header, _, *rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines
    ]
    return [dict(zip(header, row, strict=True)) for row in rows]
