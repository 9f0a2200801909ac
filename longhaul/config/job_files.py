"""What is wrong with a project's job files, by file and line. Nothing is imported or run."""

import ast
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from longhaul.config.errors import SettingsError
from longhaul.config.project import BUILT_IN, PACKAGE, Project
from longhaul.core.job_kinds import JobKind, SignatureError, kind_of

# Top-level statements that only name things.
_NAMING: Final = (
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Assign,
    ast.AnnAssign,
)


def check(project: Project) -> None:
    """Refuse jobs that could never run.

    Raises:
        SettingsError: some could not; all are named, with their lines.
    """
    if found := list(problems(project)):
        raise SettingsError("\n".join(found))


def problems(project: Project) -> Iterator[str]:
    if not project.jobs.is_dir():
        yield f"{project.jobs}: is missing; a project keeps its jobs there"
        return
    for file in sorted(project.jobs.iterdir()):
        if file.name.startswith((".", "__")) or not (file.is_dir() or file.suffix == ".py"):
            continue
        yield from name_problems(project, file)
        if file.suffix == ".py" and not file.name.startswith("_"):
            yield from _job_problems(file)


def needs_spark(project: Project, job: str) -> bool:
    """Whether a job is known to need Spark. What is wrong with its file is said elsewhere."""
    file = project.jobs / f"{job}.py"
    try:
        return job in BUILT_IN or kind_of(ast.parse(file.read_bytes())) is not JobKind.PLAIN
    except (OSError, SyntaxError, ValueError):
        return False


def name_problems(project: Project, file: Path) -> Iterator[str]:
    """Jobs and their helpers are modules at the top level: `import busy_days`."""
    others = (each for each in sys.path if Path(each or ".").resolve() != project.jobs)
    elsewhere = [*others, str(project.packages)]
    name = file.stem if file.suffix == ".py" else file.name
    if file.suffix == ".py" and name in BUILT_IN:
        yield f"{file}:1: Longhaul has a job {name!r} already; give this one another name"
    elif name == PACKAGE:
        yield f"{file}:1: {name!r} is Longhaul's own package; give this one another name"
    elif file.suffix == ".py" and not name.isidentifier():
        yield f"{file}:1: {name!r} is no name of a module: use a-z, 0-9 and _"
    elif file.suffix == ".py" and file.with_suffix("").is_dir():
        yield f"{file}:1: there is a folder {name}/ beside it: two modules of one name"
    elif name in sys.stdlib_module_names or _is_taken(name, elsewhere):
        yield f"{file}:1: Python has a module {name!r} already; give this one another name"


def _is_taken(name: str, elsewhere: list[str]) -> bool:
    # A folder without __init__.py, such as any in the working directory, is no module of its own.
    found = PathFinder.find_spec(name, elsewhere)
    return found is not None and found.origin is not None


def _job_problems(file: Path) -> Iterator[str]:
    try:
        tree = ast.parse(file.read_bytes())
        if kind_of(tree) is JobKind.SCRIPT and all(map(_only_names, tree.body)):
            yield (
                f"{file}:1: has no `def run(spark, job)` or `def run(job)`, and does nothing as a "
                "script; a module that jobs share begins with _"
            )
    except SignatureError as error:
        yield f"{file}:{error.line}: {error}; a module that jobs share begins with _"
    except (SyntaxError, ValueError) as error:
        yield f"{file}:{getattr(error, 'lineno', None) or 1}: is no Python: {error.args[0]}"


def _only_names(statement: ast.stmt) -> bool:
    return isinstance(statement, _NAMING) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )
