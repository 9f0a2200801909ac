"""What `longhaul console` does."""

from pathlib import Path
from typing import Literal

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.target import Target
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.signals import stop_signals


def console(
    target: Target, *, port: int, export: Path | None, within: Literal["1h", "6h", "1d", "7d"]
) -> None:
    out = Output()
    if export is not None:
        _export(target, export, within)
        out.line(str(export))
        return
    from longhaul.cli.page.serve import serving  # noqa: PLC0415 - slow to load

    with stop_signals(), serving(target, port) as (server, guard):
        out.say_where(target)
        out.write(guard.link)
        out.note("Ctrl-C ends this")
        server.serve_forever()


def _export(target: Target, file: Path, within: str) -> None:
    from longhaul.cli.page.app import Page  # noqa: PLC0415 - slow to load
    from longhaul.cli.page.guard import Guard  # noqa: PLC0415 - slow to load

    if not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", ExitStatus.USAGE)
    file.write_text(Page(target, Guard(0)).export(within), encoding="utf-8")
