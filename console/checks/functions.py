"""What the functions need on the machine that deploys."""

from collections.abc import Iterator

from console.checks.finding import Finding, ok, warning
from infra import bytecode
from infra.layer import PYTHON_VERSION


def compiled() -> Iterator[Finding]:
    """Whether the packages of the functions get bytecode."""
    if python := bytecode.compiler(PYTHON_VERSION):
        yield ok(f"functions: {python} compiles their packages")
    else:
        yield warning(
            f"functions: there is no Python {PYTHON_VERSION} here, so each cold start compiles "
            "their packages, which takes longer than the imports",
            f"install Python {PYTHON_VERSION} so that `python{PYTHON_VERSION}` runs; the stack "
            "works without",
        )
