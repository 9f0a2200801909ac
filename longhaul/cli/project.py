"""The project that a command is for. Loads nothing that takes time where there is none."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from longhaul.config.errors import SettingsError
from longhaul.config.project_file import ENV_VARIABLE, VARIABLE, find
from longhaul.config.sources import work_dir

if TYPE_CHECKING:
    from longhaul.config.project import Project

DEFAULT_STACK: Final = "Longhaul"
NO_PROJECT: Final = (
    "no project here (longhaul.toml), nor in a folder above: `longhaul init DIR` makes one, and "
    "--project names one"
)


def choose(named: Path | None, env: str | None = None) -> None:
    """Choose the project for this command and what it starts: the named one, or the nearest.

    `env` is the environment of it.

    Raises:
        SettingsError: the nearest one is another user's, or there is none that could have an
            environment.
    """
    os.environ[ENV_VARIABLE] = env or ""
    folder = named or find(Path.cwd())
    if env and folder is None:
        raise SettingsError(f"--env {env}: there is {NO_PROJECT}")
    if folder is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = str(folder.resolve())


def chosen() -> "Project | None":
    """The chosen project; None for the settings of `cdk.json`.

    Raises:
        SettingsError: its folder has none, or its file cannot be read.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    from longhaul.config.project import load_project  # noqa: PLC0415 - loads all settings

    return load_project(Path(folder), os.environ.get(ENV_VARIABLE) or None)


def default_work_dir() -> Path:
    project = chosen()
    return project.work_dir if project else work_dir()
