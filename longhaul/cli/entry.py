"""The program `longhaul`: loads the commands, and runs one."""

import sys

from longhaul.cli.interrupts import INTERRUPTED, ended_by_interrupt


def main() -> None:
    """Entry point.

    Loading and building the commands takes a second, during which Ctrl-C ends it without a
    traceback. A running command has its own way to end.
    """
    try:
        with ended_by_interrupt():
            from longhaul.cli.cli import main as run  # noqa: PLC0415 - may be interrupted too
        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
