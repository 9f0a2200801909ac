"""`longhaul console`: the page."""

import webbrowser
from typing import Annotated

import typer

from console.options import on_target
from console.output import Output, asked_here
from console.target import Target, say_where


@on_target
def console(
    target: Target,
    *,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 picks a free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the link.")] = False,
) -> None:
    """Serve a page on this machine that shows what is going on, and can cancel, retry and redrive; until Ctrl-C.

    Prints a link with a token, and opens it if somebody sits here. Whoever has the link can do what your credentials can do with jobs: keep it to yourself. Nobody
    else's browser, and no other site in yours, gets in. What the page asks of AWS, it asks only while somebody looks at it.

    Example: longhaul console --port 8700
    """
    # Here, because of what it loads: the other commands start without it.
    from console.page.serve import serving  # noqa: PLC0415 - see above

    out = Output()
    with serving(target, port) as (server, guard):
        say_where(out, target)
        out.write(guard.link)
        out.note("Ctrl-C ends this")
        if asked_here() and not no_browser:
            webbrowser.open(guard.link)
        server.serve_forever()
