"""A table for a terminal of any width. No cell is cut off: ids are copied, reasons are read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

_GAP = 2
_INDENT = 2
# Columns. A narrower last cell would read like syllables, so it gets lines of its own.
_FOLDED = 24


class Table:
    """A heading and aligned cells.

    Columns that do not fit go on indented lines below. The last cell of a line is folded under
    itself where it is too wide. Cells have to be printable already. `styles`, by a cell's whole
    text.
    """

    def __init__(
        self, columns: Sequence[str], rows: Iterable[Sequence[str]], styles: Mapping[str, str]
    ) -> None:
        heading = [Text(column, style="bold") for column in columns]
        shown = ([Text(cell, style=styles.get(cell, "")) for cell in row] for row in rows)
        self._lines = [heading, *shown]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width
        widths = [
            max(cell.cell_len for cell in column) for column in zip(*self._lines, strict=True)
        ]
        bands = list(_bands(widths, room))
        for cells in self._lines:
            for band in bands:
                shown = cells[band.start : band.stop]
                if band.start == 0 or any(cell.plain for cell in shown):
                    indent = _INDENT if band.start else 0
                    yield from _folded(console, shown, widths[band.start :], indent, room)


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


def _folded(
    console: Console, cells: Sequence[Text], widths: Sequence[int], indent: int, room: int
) -> Iterator[Text]:
    """The lines of some cells of a row: the last one folds under itself."""
    *others, last = cells
    line = Text(" " * indent)
    for cell, width in zip(others, widths, strict=False):
        line.append_text(cell).append(" " * (width - cell.cell_len + _GAP))
    left, under = max(1, room - line.cell_len), " " * line.cell_len
    for part in last.wrap(console, left, overflow="fold") if last.cell_len > left else [last]:
        line.append_text(part)
        line.rstrip()
        yield line
        line = Text(under)
