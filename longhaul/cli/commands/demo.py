"""`longhaul demo`."""

import os
import sys

from longhaul.cli.synth import DEFAULT_WORK_DIR
from longhaul.cli.terminal.options import WorkDir


def demo(work_dir: WorkDir = None) -> None:
    """Run real Spark jobs through the whole system on this machine, with two crashes on the way.

    It checks the results and writes a report.

    Example: longhaul demo
    """
    # The demo is a program of its own, which uses this one. It replaces this process, so that
    # Ctrl-C and the exit code are its own. -P: a folder `demo` in the working directory is not it.
    program = [sys.executable, "-P", "-m", "demo", "--work-dir", str(work_dir or DEFAULT_WORK_DIR)]
    os.execv(sys.executable, program)  # noqa: S606 - no shell is wanted
