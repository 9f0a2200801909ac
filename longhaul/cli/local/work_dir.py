"""The folder of the embedded AWS, held before moto is loaded, which takes seconds."""

from contextlib import AbstractContextManager
from pathlib import Path

from longhaul.cli.project import default_work_dir
from longhaul.cli.synth import DEFAULT_WORK_DIR
from longhaul.local.work_dir import occupied


def work_in(work_dir: Path) -> AbstractContextManager[None]:
    """Hold the folder for this process.

    Raises:
        WorkDirError: another embedded AWS works there, or it holds files of others.
    """
    is_ours = work_dir.resolve() in {DEFAULT_WORK_DIR, default_work_dir()}
    return occupied(work_dir, is_ours=is_ours, option="--work-dir")
