"""The result of a check."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"  # works, but look at it
    PROBLEM = "problem"  # does not work
    SKIPPED = "skipped"  # could not, or need not, be checked


MARKS: Final = {Level.OK: "ok", Level.WARNING: "!!", Level.PROBLEM: "XX", Level.SKIPPED: "--"}
STYLES: Final = {
    Level.OK: "green",
    Level.WARNING: "yellow",
    Level.PROBLEM: "red",
    Level.SKIPPED: "dim",
}


@dataclass(frozen=True)
class Finding:
    """`what` was found, and `do`: what to do about it."""

    level: Level
    what: str
    do: str = ""


def ok(what: str) -> Finding:
    return Finding(Level.OK, what)


def warning(what: str, do: str) -> Finding:
    return Finding(Level.WARNING, what, do)


def problem(what: str, do: str) -> Finding:
    return Finding(Level.PROBLEM, what, do)


def skipped(what: str) -> Finding:
    return Finding(Level.SKIPPED, what)
