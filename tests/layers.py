"""The room of each file of `longhaul/`: its folder tells it, and of an engine's file its name."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
DEMO_JOBS: Final = ROOT / "examples" / "demo" / "jobs"
FEATURES: Final = ("pipelines", "outputs", "saved", "notices")
"""What hangs on the core; functions and tasks have both."""
OF_FILE: Final = {
    "__init__": "engines",
    "listed": "engines",
    "ends": "engines",
    "tasks": "engines",
    "runner": "runner",
    "states": "cdk",
    "construct": "cdk",
    "settings": "config",
}


def layered(name: str) -> str:
    """A dotted name below its room; what is outside the package stays as it is.

    `longhaul.cli.cdk` is `cli.cdk`, `longhaul.core.lease` is `core.lease`, `longhaul.wiring` is
    `wiring`, and `longhaul.engines.fargate.states` is `cdk.engines.fargate.states`.
    """
    package, *parts = name.split(".")
    if package != "longhaul":
        return name
    if parts[:1] == ["engines"]:
        files = [part for part in parts[1:3] if part in OF_FILE]
        room = OF_FILE[files[0] if files else "__init__"]
        return ".".join(parts if room == "engines" else [room, *parts])
    return ".".join(parts)


def module(file: Path) -> str:
    """The file's dotted name, `layered`."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return layered(".".join(parts))


def python_files(folder: Path) -> list[Path]:
    """All below the folder, without copies in a hidden one, such as `.longhaul` of the demo."""
    files = (file for file in folder.rglob("*.py") if "/." not in str(file.relative_to(ROOT)))
    return sorted(files)


def engine_files(*rooms: str) -> set[str]:
    """The paths of the files of `longhaul/engines/` in these rooms."""
    files = (file for room in rooms for file in files_of(room))
    engines = ROOT / "longhaul" / "engines"
    return {str(file.relative_to(ROOT)) for file in files if engines in file.parents}


def files_of(room: str) -> list[Path]:
    """All Python files of a room, such as `core`, or of a package beside `longhaul`."""
    folders = [ROOT / "longhaul", ROOT / room.partition(".")[0]]
    files = {file for folder in folders for file in python_files(folder)}
    return sorted(each for each in files if f"{module(each)}.".startswith(f"{room}."))
