"""Tables of jobs: people read names, and programs ids."""

from collections.abc import Iterable, Sequence

from longhaul.cli.display.job import COLUMNS
from longhaul.cli.terminal.output import Output, table_of
from longhaul.cli.terminal.table import Table


def show_jobs(out: Output, rows: Iterable[Sequence[str]]) -> None:
    """Show what `display.job.row_of` makes of jobs: by names on a terminal, by ids in a pipe."""
    if out.data.is_terminal:
        out.data.print(jobs_table(rows))
    else:
        out.table(COLUMNS, (ids for _, *ids in rows))


def jobs_table(rows: Iterable[Sequence[str]]) -> Table:
    """By names, for a terminal."""
    return table_of(("job", *COLUMNS[2:]), [[name, *rest] for name, _, _, *rest in rows])
