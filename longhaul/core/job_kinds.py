"""What kind of job a file is, by its text: it is not imported, which would run a script. Pure."""

import ast
from enum import StrEnum
from typing import Final

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class JobKind(StrEnum):
    SPARK = "spark"
    """A module with `def run(spark, job)`."""

    PLAIN = "plain"
    """A module with `def run(job)`: no JVM is started for it."""

    SCRIPT = "script"
    """All else: an ordinary PySpark script."""


class SignatureError(ValueError):
    """A `run` that nothing would call. `line` is where it is."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


_KINDS: Final = {("spark", "job"): JobKind.SPARK, ("job",): JobKind.PLAIN}


def kind_of(tree: ast.Module) -> JobKind:
    """The kind of a file with this text.

    A script may have a `run` of its own, which it calls.

    Raises:
        SignatureError: there is a `run` with other parameters, and the file does not use it; or a
            call of `run` would only make a generator.
    """
    runs = [each for each in tree.body if isinstance(each, _FUNCTIONS) and each.name == "run"]
    # Of several the last one is the module's.
    if runs and isinstance(runs[-1], ast.FunctionDef):
        kind = _KINDS.get(_parameters(runs[-1]))
        if kind is not None:
            _require_no_generator(runs[-1])
            return kind
    if runs and not any(
        isinstance(node, ast.Name) and node.id == "run" and isinstance(node.ctx, ast.Load)
        for node in ast.walk(tree)
    ):
        last = runs[-1]
        how = "async def" if isinstance(last, ast.AsyncFunctionDef) else "def"
        raise SignatureError(
            f"`{how} run({ast.unparse(last.args)})` is no job's: `def run(spark, job)` is one with"
            " Spark, and `def run(job)` one without",
            last.lineno,
        )
    return JobKind.SCRIPT


def _parameters(function: ast.FunctionDef) -> tuple[str, ...]:
    """What a caller must give; what it must give by name ends with `=`."""
    arguments = function.args
    needed = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    by_name = (f"{each.arg}=" for each, default in needed if default is None)
    given = (each.arg.lstrip("_") for each in (*arguments.posonlyargs, *arguments.args))
    return (*given, *by_name)  # `_spark`: not used


def _require_no_generator(run: ast.FunctionDef) -> None:
    """Refuse a `run` with a `yield`: a call of it runs none of its lines."""
    if run.decorator_list:  # which may be what runs them
        return
    left: list[ast.AST] = [*run.body]
    while left:
        node = left.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            raise SignatureError(
                "`run` has a yield, so a call of it would run none of its lines: give the rows to"
                " job.write, or let `run` call the function that yields",
                node.lineno,
            )
        if not isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            left += ast.iter_child_nodes(node)
