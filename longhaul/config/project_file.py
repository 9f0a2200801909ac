"""The file of a project, `longhaul.toml`: where it is, and its content as it is written.

Loads nothing that takes time: every command looks for it, also to show its help.
"""

import json
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from longhaul.config.errors import SettingsError

FILE: Final = "longhaul.toml"
VARIABLE: Final = "LONGHAUL_PROJECT"
"""Names the project's folder to the CDK app; the `longhaul` command sets it."""
ENV_VARIABLE: Final = "LONGHAUL_ENV"
"""Names the environment of the project, as `--env` does."""
LOCAL: Final = "local"
"""The environment of `longhaul up`. Every project has it."""


class ProjectFile(NamedTuple):
    """`folder` is absolute; `content` is what the TOML `text` says."""

    folder: Path
    text: str
    content: Mapping[str, Any]


def find(start: Path) -> Path | None:
    """The folder of the project that `start` is in: the nearest one upwards.

    Raises:
        SettingsError: others may write it, and no one has named it.
    """
    for folder in (start, *start.parents):
        if (folder / FILE).is_file():
            _require_trusted(folder)
            return folder
    return None


def _require_trusted(folder: Path) -> None:
    """Commands run the code of a project, so a found one must not be of another user."""
    file = folder / FILE
    # A link too: in a shared folder another user's may lead to our own file.
    others = [each for each in (folder, file, file.resolve()) if is_of_another_user(each)]
    if others or folder.stat().st_mode & stat.S_IWOTH:
        theirs = f"{others[0]} belongs to another user" if others else ""
        why = theirs or f"every user may write to {folder}"
        raise SettingsError(
            f"{file}: is not taken as the project, because its code would run as you, and {why}; "
            f"if you trust it, name it: `longhaul --project {folder} …`"
        )


def is_of_another_user(place: Path) -> bool:
    """Whether neither we nor root own a file, a folder or a link; root can do all that we can."""
    return _owner_of(place) not in {0, os.geteuid()}


def _owner_of(place: Path) -> int:
    return place.lstat().st_uid


def read_file(folder: Path) -> ProjectFile:
    """The file of the project in a folder.

    Raises:
        SettingsError: there is no `longhaul.toml`, or it is no TOML.
    """
    file = folder.resolve() / FILE
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        raise SettingsError(
            f"{folder}: is no project: it has no {FILE}; `longhaul init {folder}` makes one"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: cannot be read: {error}") from error
    try:
        # Dates are the one kind of value that JSON lacks: no setting is one, and a text may be.
        content = json.loads(json.dumps(tomllib.loads(text), default=str))
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        place = f"{file}:{found[1]}" if found else str(file)
        raise SettingsError(f"{place}: is no TOML: {error}") from None
    return ProjectFile(file.parent, text, content)
