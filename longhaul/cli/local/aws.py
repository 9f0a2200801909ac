"""The embedded AWS with what Longhaul's stack needs of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from longhaul.cli.local_project import python_environment
from longhaul.config import npm
from longhaul.config.project import Project, demo
from longhaul.config.sources import sources
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.iam.judge import FILES, PROGRAM
from longhaul.local.running import LOOPBACK
from longhaul.local.state.store import Store

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
    iam: Path | None = None,
    store: Store | None = None,
) -> EmbeddedAws:
    """An embedded AWS for Longhaul's stack, not yet started.

    Tasks run in `task_dir`, by default in `sources()`. Without a project they find the jobs of a
    checkout's demo. Roles are enforced with what `roles_judge` installs. With a `store`, state
    outlives the stop.
    """
    jobs = project or demo()
    return EmbeddedAws(
        work_dir=work_dir,
        task_dir=task_dir or sources(),
        port=port,
        host=host,
        provided_archives=(_PACKAGES,),
        task_environment=python_environment(jobs) if jobs else {},
        iam=iam,
        store=store,
    )


def roles_judge() -> Path:
    """What enforces roles (`longhaul.local.iam.judge`), installed from npm if it is not yet.

    Raises:
        NpmError: npm's registry cannot be reached.
    """
    return npm.installed(PROGRAM, FILES)


def roles_judge_if_any(say: Callable[[str], None]) -> Path | None:
    """The same for a person who has no npm: says that no role is enforced."""
    try:
        return roles_judge()
    except npm.NpmError as error:
        say(
            "no role is enforced: what judges calls could not be installed from npm (--no-iam does "
            f"without it): {error}"
        )
        return None
