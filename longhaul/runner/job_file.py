"""Where the file of a job is, and whether it needs Spark. Imports little: a JVM may wait for it."""

import ast
import importlib.util
import os
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
