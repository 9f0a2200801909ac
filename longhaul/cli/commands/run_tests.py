"""`longhaul test`."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.extras import require
from longhaul.cli.project import NO_PROJECT, chosen
from longhaul.config.project_file import is_of_another_user
from longhaul.config.sources import is_installed

_NO_TESTS = 5  # pytest's exit code

# The nearest of them upwards decides from which folder on each conftest.py is run.
_PYTEST_FILES = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
    "setup.py",
    "conftest.py",
)


def run_tests(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="For pytest, such as -k NAME.", metavar="PYTEST-ARGS"),
    ] = None,
) -> None:
    """Check the project, and run its tests with pytest.

    The tests import jobs by their names, and what requirements.txt installs. They have the fixtures
    `spark` (a session like a task's), `make_job` (a job over local files, in a stage of the
    project), `written` and `emitted` (what it wrote, and the requests that it emitted).

    Example: longhaul test -k carriers
    """
    from longhaul.cli.local_project import make_ready, python_environment
    from longhaul.config.known import known
    from longhaul.core.settings import VARIABLE

    project = chosen()
    if project is None:
        own = "" if is_installed() else "; the checkout's own tests are `make test`"
        raise CommandError(f"{NO_PROJECT}{own}", ExitStatus.USAGE)
    require("local")
    _require_own_above(project.folder)
    make_ready(project)
    # -P: no folder of the project hides one of the checkout.
    command = [sys.executable, "-P", "-m", "pytest", *(arguments or [])]
    settings = {VARIABLE: known(project.checked(), project.job_names).model_dump_json()}
    environment = os.environ | python_environment(project) | settings
    done = subprocess.run(command, cwd=project.folder, env=environment, check=False)
    if done.returncode == _NO_TESTS:
        raise CommandError("no test was run")
    if done.returncode:
        raise typer.Exit(ExitStatus.FAILED)


def _require_own_above(folder: Path) -> None:
    """Refuse what pytest would read or run above the project, and another user wrote."""
    for above in folder.parents:
        for file in (above / name for name in _PYTEST_FILES):
            if os.path.lexists(file) and is_of_another_user(file):
                raise CommandError(
                    f"{file} belongs to another user, and pytest would use it, because it looks "
                    "for its files in all folders above: move the project out of there",
                    ExitStatus.USAGE,
                )
