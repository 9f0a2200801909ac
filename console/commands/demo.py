"""`longhaul demo`: the whole system on this machine."""

import typer
from rich.console import Console

from console.commands.up import WorkDir
from local.running import DEFAULT_WORK_DIR


def demo(work_dir: WorkDir = DEFAULT_WORK_DIR) -> None:
    """Run real Spark jobs through the whole system on this machine, with a crash on the way, and check the results.

    Example: longhaul demo
    """
    # Here, because it is Spark's, moto's and the data's: the other commands start without them.
    from local.demo.run import run  # noqa: PLC0415 - see above

    raise typer.Exit(run(Console(), work_dir))
