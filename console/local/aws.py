"""The embedded AWS with what Longhaul's stack needs of it."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from console.project import default_work_dir, python_environment
from console.synth import DEFAULT_WORK_DIR, REPOSITORY
from embedded.cloud import EmbeddedAws
from embedded.http_services import LOOPBACK
from embedded.work_dir import occupied
from infra.project import Project

# The archive of pinned wheels (`engines.emr_serverless.construct`). They are for the stack's
# architecture and the release's Python; this environment has the same packages.
_PACKAGES: Final = "packages"


def embedded_aws(
    work_dir: Path,
    *,
    port: int = 0,
    host: str = LOOPBACK,
    task_dir: Path = REPOSITORY,
    project: Project | None = None,
) -> EmbeddedAws:
    """An embedded AWS for Longhaul's stack, not yet started. Tasks run in `task_dir`."""
    return EmbeddedAws(
        work_dir=work_dir,
        task_dir=task_dir,
        port=port,
        host=host,
        provided_archives=(_PACKAGES,),
        task_environment=python_environment(project) if project else {},
    )


def work_in(work_dir: Path) -> AbstractContextManager[None]:
    """Hold the folder for this process.

    Raises:
        WorkDirError: another embedded AWS works there, or it holds files of others.
    """
    is_ours = work_dir.resolve() in {DEFAULT_WORK_DIR, default_work_dir()}
    return occupied(work_dir, is_ours=is_ours, option="--work-dir")
