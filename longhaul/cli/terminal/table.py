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
    folded. Where it saves such a line, long texts are folded between their words first. Cells have
    to be printable already. `styles`, by a cell's whole text.
    """

    def __init__(
        self, columns: Sequence[str], rows: Iterable[Sequence[str]], styles: Mapping[str, str]
    ) -> None:
        self._heading = [Text(column, style="bold") for column in columns]
        self._rows = [[Text(cell, style=styles.get(cell, "")) for cell in row] for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [self._heading, *self._rows]
        columns = list(zip(*lines, strict=True))
        natural = [max(cell.cell_len for cell in column) for column in columns]
        # A column of ids has none that can be folded.
        least = [
            min(width, max(_FOLDED, *map(_longest_word, column)))
            for width, column in zip(natural, columns, strict=True)
        ]
        widths, bands = natural, list(_bands(natural, options.max_width))
        if len(folded := list(_bands(least, options.max_width))) < len(bands):
            bands = folded
            widths = [
                width
                for band in bands
                for width in _shared(
                    [natural[column] for column in band],
                    [least[column] for column in band],
                    options.max_width - (_INDENT if band.start else 0),
                )
            ]
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


def _longest_word(cell: Text) -> int:
    return max(map(cell_len, cell.plain.split()), default=0)


def _shared(natural: Sequence[int], least: Sequence[int], room: int) -> Iterator[int]:
    """The widths of a line's columns: those that want more get the same of what is left."""
    left = room - sum(least) - _GAP * (len(least) - 1)
    wanting = sum(want > has for want, has in zip(natural, least, strict=True))
    for want, has in zip(natural, least, strict=True):
        more = min(want - has, max(0, left) // wanting) if want > has else 0
        wanting -= want > has
        left -= more
        yield has + more


def _folded(console: Console, cell: Text, width: int) -> Sequence[Text]:
    if cell.cell_len <= width:
        return [cell]
    parts = cell.wrap(console, width, overflow="fold")
    for part in parts:
        part.rstrip()  # the blank between two words
    return list(parts)


def _row_lines(
    console: Console, cells: Sequence[Text], widths: Sequence[int], indent: int, room: int
) -> Iterator[Text]:
    """The lines of one row in one band: a cell that is too wide folds under itself."""
    offset = indent + sum(widths[:-1]) + _GAP * (len(widths) - 1)
    folded = [
        _folded(console, cell, max(1, width))
        for cell, width in zip(cells, [*widths[:-1], room - offset], strict=True)
    ]
    for parts in zip_longest(*folded):
        line = Text(" " * indent)
        for part, width in zip(parts, widths, strict=True):
            shown = part or Text("")
            line.append_text(shown).append(" " * (width - shown.cell_len + _GAP))
        line.rstrip()
        yield line
