"""A table for a terminal of any width. No cell is cut off: ids are copied, reasons are read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

_GAP = 2
_INDENT = 2
# Columns. A narrower last cell would read like syllables, so it gets lines of its own.
_FOLDED = 24


class Table:
    """A heading and aligned cells.

    Columns that do not fit go on indented lines below; a cell that is too wide even there is
    folded. Cells have to be printable already. `styles`, by a cell's whole text.
    """

    def __init__(
        self, columns: Sequence[str], rows: Iterable[Sequence[str]], styles: Mapping[str, str]
    ) -> None:
        self._heading = [Text(column, style="bold") for column in columns]
        self._rows = [[Text(cell, style=styles.get(cell, "")) for cell in row] for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [self._heading, *self._rows]
        widths = [max(cell.cell_len for cell in column) for column in zip(*lines, strict=True)]
        bands = list(_bands(widths, options.max_width))
        for cells in lines:
            for band in bands:
                indent = _INDENT if band.start else 0
                shown = [cells[column] for column in band]
                if not indent or any(cell.plain for cell in shown):
                    yield from _row_lines(
                        console,
                        shown,
                        [widths[column] for column in band],
                        indent,
                        options.max_width,
                    )


def _bands(widths: Sequence[int], room: int) -> Iterator[range]:
    """The columns of each line: as many as fit. The last column may be folded to fit."""
    start, used = 0, 0
    for column, natural in enumerate(widths):
        wanted = min(natural, _FOLDED) if column == len(widths) - 1 else natural
        if column > start and used + _GAP + wanted > room:
            yield range(start, column)
            start, used = column, _INDENT
        used += wanted + (_GAP if column > start else 0)
    yield range(start, len(widths))


def _row_lines(
    console: Console, cells: Sequence[Text], widths: Sequence[int], indent: int, room: int
) -> Iterator[Text]:
    """The lines of one row in one band.

    Only the last cell can be too wide: it folds under itself.
    """
    lead = Text(" " * indent)
    for cell, width in zip(cells[:-1], widths[:-1], strict=True):
        lead.append_text(cell).append(" " * (width - cell.cell_len + _GAP))
    offset = cell_len(lead.plain)
    folded = cells[-1].wrap(console, max(1, room - offset), overflow="fold")
    for before, part in zip_longest([lead], folded, fillvalue=None):
        line = before or Text(" " * offset)
        line.append_text(part or Text(""))
        line.rstrip()
        yield line
