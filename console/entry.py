"""The program `longhaul`: loads the commands, and runs one."""

import sys

# As `ExitStatus.INTERRUPTED`, whose module loads boto3: too long to wait for Ctrl-C.
INTERRUPTED = 130


def main() -> None:
    """Entry point.

    Loading and building the commands takes a second, during which Ctrl-C ends it without a
    traceback. A running command has its own way to end.
    """
    try:
        from console.cli import main as run  # noqa: PLC0415 - the import may be interrupted too

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
