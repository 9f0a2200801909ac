"""`longhaul demo`."""

from longhaul.cli.terminal.declaring import runs
from longhaul.cli.terminal.options import EnforceRoles, WorkDir


@runs
def demo(work_dir: WorkDir = None, *, iam: EnforceRoles = True) -> None:
    """Run real Spark jobs through the whole system on this machine, with two crashes on the way.

    It checks the results and writes a report.

    Example: longhaul demo
    """
