"""The layer of each file of `longhaul/engines/`, which its name tells."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
OF_FILE: Final = {
    "__init__": "longhaul.domain",
    "engine": "longhaul.domain",
    "listed": "longhaul.domain",
    "meaning": "longhaul.domain",
    "tasks": "longhaul.adapters",
    "runner": "jobs",
    "states": "infra",
    "construct": "infra",
    "settings": "infra",
}


def layered(name: str) -> str:
    """`longhaul.engines.fargate.tasks` as `longhaul.adapters.engines.fargate.tasks`; others as they are."""
    package, *parts = name.split(".")
    if package != "engines":
        return name
    files = [part for part in parts[:2] if part in OF_FILE]
    return f"{OF_FILE[files[0] if files else '__init__']}.{name}"


def module(file: Path) -> str:
    """The file's dotted name, `layered`."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return layered(".".join(parts))


def engine_files(*layers: str) -> set[str]:
    """The paths of the files of `longhaul/engines/` in these layers."""
    files = (file for layer in layers for file in files_of(layer))
    return {str(file.relative_to(ROOT)) for file in files if ROOT / "engines" in file.parents}


def files_of(package: str) -> list[Path]:
    """All Python files of the package, and those of `longhaul/engines/` in its layer."""
    inside = (ROOT / package.replace(".", "/")).rglob("*.py")
    engines = (ROOT / "engines").rglob("*.py")
    return sorted([*inside, *(file for file in engines if module(file).startswith(f"{package}."))])
