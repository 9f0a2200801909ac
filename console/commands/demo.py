"""`longhaul demo`: the whole system on this machine."""

from pathlib import Path

import typer
from rich.console import Console

from console.commands.report import write_report
from console.commands.up import WorkDir
from console.target import Place, Target
from local.running import DEFAULT_WORK_DIR
from longhaul.domain.lease import State
from longhaul.jobs import Ages


def demo(work_dir: WorkDir = DEFAULT_WORK_DIR) -> None:
    """Run real Spark jobs through the whole system on this machine, with a crash on the way, check the results, and write a report.

    Example: longhaul demo
    """
    # Here, because it is Spark's, moto's and the data's: the other commands start without them.
    from local.demo.run import run  # noqa: PLC0415 - see above

    def report(endpoint: str, region: str) -> Path:
        """About all jobs there are, while the stack still stands."""
        target = Target(Place(endpoint, region, None, embedded=True), None)
        names = [stage.name for stage in target.stages(None)]
        jobs = [*target.jobs.unfinished(names), *target.jobs.ended(names, tuple(State), Ages())]
        file = work_dir / "report.html"
        write_report(target, target.jobs.lanes(jobs), file)
        return file

    raise typer.Exit(run(Console(), work_dir, report))
