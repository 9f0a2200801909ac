"""A question to AWS, and its answer."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from longhaul.cli.checks.finding import Level


@dataclass(frozen=True)
class Answer:
    """What was `asked`, AWS's `answer`, and what to `do`.

    The level SKIPPED is "not asked": AWS gave no answer. It never counts as a success.
    """

    level: Level
    asked: str
    answer: str
    do: str = ""


@dataclass(frozen=True)
class Question:
    """`calls`: the actions that it needs, as IAM names them.

    `passing`: what it makes and removes again; empty where it only reads.
    """

    name: str
    about: str
    calls: Sequence[str]
    ask: Callable[[], Iterator[Answer]]
    passing: str = ""


def good(asked: str, answer: str) -> Answer:
    return Answer(Level.OK, asked, answer)


def odd(asked: str, answer: str, do: str) -> Answer:
    return Answer(Level.WARNING, asked, answer, do)


def bad(asked: str, answer: str, do: str) -> Answer:
    return Answer(Level.PROBLEM, asked, answer, do)


def unasked(asked: str, answer: str, do: str = "") -> Answer:
    return Answer(Level.SKIPPED, asked, answer, do)
