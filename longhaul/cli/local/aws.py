"""The embedded AWS with what Longhaul's stack needs of it."""

from pathlib import Path
from typing import Final

from longhaul.cli.project import python_environment
from longhaul.config.project import Project, demo
from longhaul.config.sources import sources
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.http_services import LOOPBACK

# The archive of pinned wheels (`longhaul.engines.emr_serverless.construct`). They are for the
# stack's architecture and the release's Python; this environment has the same packages.
_PACKAGES: Final = "packages"


def embedded_aws(
    work_dir: Path,
    *,
    port: int = 0,
    host: str = LOOPBACK,
    task_dir: Path | None = None,
    project: Project | None = None,
) -> EmbeddedAws:
    """An embedded AWS for Longhaul's stack, not yet started.

    Tasks run in `task_dir`, by default in `sources()`. Without a project they find the jobs of a
    checkout's demo.
    """
    jobs = project or demo()
    return EmbeddedAws(
        work_dir=work_dir,
        task_dir=task_dir or sources(),
        port=port,
        host=host,
        provided_archives=(_PACKAGES,),
        task_environment=python_environment(jobs) if jobs else {},
    )
