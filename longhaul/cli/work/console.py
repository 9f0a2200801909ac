"""What `longhaul console` does."""

import webbrowser

from longhaul.cli.target import Target
from longhaul.cli.terminal.output import Output, is_interactive
from longhaul.cli.terminal.signals import stop_signals


def console(target: Target, *, port: int, no_browser: bool) -> None:
    from longhaul.cli.page.serve import serving  # noqa: PLC0415 - slow to load

    out = Output()
    with stop_signals(), serving(target, port) as (server, guard):
        out.say_where(target)
        out.write(guard.link)
        out.note("Ctrl-C ends this")
        if is_interactive() and not no_browser:
            webbrowser.open(guard.link)
        server.serve_forever()
