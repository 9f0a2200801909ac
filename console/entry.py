"""The program `longhaul`: loads the commands, and runs one."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Entry point. Loading takes half a second, and Ctrl-C is as good then as later."""
    try:
        from console.cli import main as run  # noqa: PLC0415 - inside, because it is what may be interrupted
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run()
