"""The program `longhaul`: loads the commands, and runs one."""

import sys

# As `ExitStatus.INTERRUPTED`, whose module loads boto3: too long to wait for Ctrl-C.
INTERRUPTED = 130


def main() -> None:
    """Entry point. Loading takes half a second, during which Ctrl-C ends it without a traceback."""
    try:
        from console.cli import main as run  # noqa: PLC0415 - the import is what may be interrupted
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run()
