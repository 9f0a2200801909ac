"""The program `longhaul`: loads the commands, and runs one."""

import sys
from importlib import metadata

from longhaul.cli.errors import ExitStatus
from longhaul.cli.interrupts import ended_by_interrupt


def main() -> None:
    """Entry point.

    Loading and building the commands takes a second, during which Ctrl-C ends it without a
    traceback. A running command has its own way to end.
    """
    _refuse_another_longhaul()
    try:
        with ended_by_interrupt():
            from longhaul.cli.cli import main as run  # noqa: PLC0415 - may be interrupted too
        run()
    except KeyboardInterrupt:
        sys.exit(ExitStatus.INTERRUPTED)


def _refuse_another_longhaul() -> None:
    """End where the other project's distribution has laid its files among ours.

    It is called `longhaul` on the package index, and has a package and a command of that name too.
    """
    for other in metadata.distributions(name="longhaul"):
        # A checkout from before our own name describes itself so, without a record.
        if other.read_text("RECORD") and any(
            file.parts[0] == "longhaul" for file in other.files or ()
        ):
            sys.exit(
                f"longhaul: another project's distribution `longhaul` {other.version} is installed"
                " here, in the same folder as longhaul-jobs: pip uninstall -y longhaul, then"
                " pip install --force-reinstall --no-deps longhaul-jobs"
            )
