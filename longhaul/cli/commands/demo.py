"""`longhaul demo`."""

import os
import sys

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.options import EnforceRoles, WorkDir
from longhaul.config.sources import is_installed, sources


def demo(work_dir: WorkDir = None, *, iam: EnforceRoles = True) -> None:
    """Run real Spark jobs through the whole system on this machine, with two crashes on the way.

    It checks the results, and writes report.html to the work dir. A work dir that another embedded
    AWS uses, or that holds other files, is refused.

    Example: longhaul demo
    """
    from longhaul.cli.synth import DEFAULT_WORK_DIR

    if is_installed():
        raise CommandError(
            "the demo and its flights are in a checkout of Longhaul: `make demo` there",
            ExitStatus.USAGE,
        )
    # The demo is a program of its own, which uses this one. It replaces this process, so that
    # Ctrl-C and the exit code are its own. -P: `examples` is the checkout's, not one of the working
    # directory.
    work = ["--work-dir", str(work_dir or DEFAULT_WORK_DIR), *([] if iam else ["--no-iam"])]
    program = [sys.executable, "-P", "-m", "examples.demo", *work]
    path = os.pathsep.join(filter(None, [str(sources()), os.environ.get("PYTHONPATH")]))
    os.execve(sys.executable, program, os.environ | {"PYTHONPATH": path})  # noqa: S606 - no shell
