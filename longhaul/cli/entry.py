"""The program `longhaul`: loads the commands, and runs one."""

import os
import signal
import sys

# As `ExitStatus.INTERRUPTED`, whose module loads boto3: too long to wait for Ctrl-C.
INTERRUPTED = 130


def main() -> None:
    """Entry point.

    Loading and building the commands takes a second, during which Ctrl-C ends it without a
    traceback. A running command has its own way to end.
    """
    at_interrupt = signal.getsignal(signal.SIGINT)
    try:
        if at_interrupt is signal.default_int_handler:
            # No exception: pydantic, which builds its models now, makes an error of its own of one.
            signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
        from longhaul.cli.cli import main as run  # noqa: PLC0415 - the import may be interrupted too

        signal.signal(signal.SIGINT, at_interrupt)
        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
