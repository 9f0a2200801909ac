"""`longhaul console`."""

import webbrowser
from typing import Annotated

import typer

from longhaul.cli.target import Target
from longhaul.cli.terminal.options import on_target
from longhaul.cli.terminal.output import Output, is_interactive
from longhaul.cli.terminal.signals import stop_signals


@on_target
def console(
    target: Target,
    *,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 picks a free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the link.")] = False,
) -> None:
    """Serve a live page on this machine, until Ctrl-C; it can cancel, retry and redrive.

    Prints a secret link, and opens it if stdin is a terminal. The link gives the rights of your
    credentials over jobs: keep it, and every address of the page, to yourself. Without it nothing
    is served. The page calls AWS only while it is looked at.

    Example: longhaul console --port 8700
    """
    from longhaul.cli.page.serve import serving  # noqa: PLC0415 - slow to load

    out = Output()
    with stop_signals(), serving(target, port) as (server, guard):
        out.say_where(target)
        out.write(guard.link)
        out.note("Ctrl-C ends this")
        if is_interactive() and not no_browser:
            webbrowser.open(guard.link)
        server.serve_forever()
