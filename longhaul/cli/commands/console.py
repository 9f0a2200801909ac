"""`longhaul console`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.signals import stop_signals

if TYPE_CHECKING:
    from longhaul.cli.target import Target


@on_target
def console(
    target: "Target",
    *,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 picks a free one.")] = 0,
    export: Annotated[
        Path | None, typer.Option(help="Write the page to this file, and serve nothing.")
    ] = None,
    within: Annotated[
        Literal["1h", "6h", "1d", "7d"], typer.Option(help="With --export: jobs that ended since.")
    ] = "7d",
) -> None:
    """Serve a live page on this machine, until Ctrl-C; it can cancel and rerun.

    Prints a secret link: open it in your browser. It gives the rights of your credentials over
    jobs: keep it, and every address of the page, to yourself. Without it nothing is served.
    The page (docs/operations.md#the-page) calls AWS only while it is looked at. With --export it
    writes itself to a file, with the first 500 runs and jobs; the file loads nothing and runs no
    script.

    Example: longhaul console --export yesterday.html --within 1d
    """
    out = Output()
    if export is not None:
        _export(target, export, within)
        out.line(str(export))
        return
    from longhaul.cli.page.serve import serving

    with stop_signals(), serving(target, port) as (server, guard):
        out.say_where(target)
        out.write(guard.link)
        out.note("Ctrl-C ends this")
        server.serve_forever()


def _export(target: "Target", file: Path, within: str) -> None:
    from longhaul.cli.page.app import Page
    from longhaul.cli.page.guard import Guard

    if not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", ExitStatus.USAGE)
    file.write_text(Page(target, Guard(0)).export(within), encoding="utf-8")
