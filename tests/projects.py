"""A project as `longhaul init` makes it, and wheels that need no index."""

import base64
import hashlib
import zipfile
from pathlib import Path

from pydantic import JsonValue

from longhaul.cli.commands.init import files_of
from longhaul.config.project import Project, demo, load_project
from longhaul.config.settings import Settings


def make_project(folder: Path, **files: str) -> Project:
    """A new project; `files` are more of them, or others, by their names with `__` for `/`."""
    given = {name.replace("__", "/"): text for name, text in files.items()}
    for place, text in (files_of(folder.name) | given).items():
        file = folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return load_project(folder)


def checked(settings: JsonValue) -> Settings:
    """These settings over the defaults, as synthesis checks them, with the jobs of the demo.

    Raises:
        SettingsError: some are wrong.
    """
    project = demo()
    assert project
    return project.checked(settings)


def make_wheel(folder: Path, name: str, code: str, requires: str = "") -> Path:
    """A wheel of one module."""
    info = f"{name}-1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    if requires:
        metadata += f"Requires-Dist: {requires}\n"
    files = {
        f"{name}.py": code,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},{_digest(text)},{len(text)}\n" for path, text in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
