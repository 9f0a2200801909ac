"""Where the file of a job is, whether it needs Spark, and what it computes: a digest of its code.

Imports little: a JVM may wait for it. What a job has stored is of no use to other code. The digest
covers the job's module and those of its folder that it imports, and the project's requirements.
Another job of the folder may change without a change of the digest.
"""

import ast
import hashlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from longhaul.core.job_kinds import JobKind, kind_of

_CATALOGUE: Final = "longhaul.catalogue"
JOBS_VARIABLE: Final = "LONGHAUL_JOBS"
"""Names the folder of a project's jobs, which is on PYTHONPATH too. The image sets both."""
BROUGHT: Final = "s3://"
"""With it begins the name of a job whose code its message has brought along."""


def jobs_of_project() -> Path | None:
    folder = os.environ.get(JOBS_VARIABLE)
    return Path(folder) if folder else None


def file_in_project(name: str) -> Path | None:
    """The file of a project's job; None for the catalogue's own."""
    folder = jobs_of_project()
    file = folder / f"{name}.py" if folder else None
    return file if file and file.is_file() else None


def file_in_catalogue(name: str) -> Path | None:
    spec = importlib.util.find_spec(f"{_CATALOGUE}.{name}")
    return Path(spec.origin) if spec and spec.origin else None


def may_need_no_spark(name: str | None) -> bool:
    """Whether a JVM that is started at once might be one too many.

    So is it for plain Python, for code that is yet to be fetched, and where Spark is not installed.
    `name` is None where it is not known. What is wrong with a file is said when it is loaded.
    """
    if importlib.util.find_spec("pyspark") is None:
        return True
    if name is None or name.startswith(BROUGHT):
        return name is not None
    try:
        file = file_in_project(name) or file_in_catalogue(name)
        return file is not None and kind_of(ast.parse(file.read_bytes())) is JobKind.PLAIN
    except (OSError, SyntaxError, ValueError, ImportError):
        return False


# The image puts it beside the folder of the jobs.
_REQUIREMENTS: Final = "requirements.txt"


def code_digest(file: Path, jobs: Path | None = None) -> str:
    """Hex digits that differ when the job in `file` may compute something else.

    `jobs` is the project's folder, which a file from elsewhere may import from, too. Modules that
    are imported by a computed name are not seen.
    """
    folder = jobs or file.parent
    parts = {
        each.relative_to(folder if each.is_relative_to(folder) else file.parent).as_posix(): each
        for each in _modules(file, {file.parent, folder})
    }
    requirements = folder.parent / _REQUIREMENTS
    if requirements.is_file():
        parts[f"../{_REQUIREMENTS}"] = requirements
    digest = hashlib.sha256()
    for name, each in sorted(parts.items()):
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256(each.read_bytes()).digest())
    return digest.hexdigest()[:32]


def _modules(file: Path, roots: set[Path]) -> set[Path]:
    """The job's file, and those below these folders that it imports, over others too."""
    found = {file}
    waiting = [file]
    while waiting:
        importer = waiting.pop()
        # An import may be relative to each of the packages around it.
        folders = roots | {
            each for each in importer.parents if any(map(each.is_relative_to, roots))
        }
        for name in _imported(importer):
            for each in {each for folder in folders for each in _files(folder, name)} - found:
                found.add(each)
                waiting.append(each)
    return found


def _imported(file: Path) -> Iterator[str]:
    """Names of modules that a file may import, relative ones without their dots."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module:
                yield node.module
            for alias in node.names:
                yield f"{node.module}.{alias.name}" if node.module else alias.name


def _files(folder: Path, name: str) -> Iterator[Path]:
    """The files of a module and of the packages around it."""
    place = folder
    for part in name.split("."):
        place = place / part
        for each in (place.with_suffix(".py"), place / "__init__.py"):
            if each.is_file():
                yield each
