"""A rule of AWS and its answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.contract.conftest import Aws

Answer = str | tuple[str, ...]
"""An error code, `ok`, or a value. Several: each of them may come."""

NOT_ASKED = "not asked"
"""The answer of an engine that lacks what the rule is about."""


def recorded(test: str, date: str) -> str:
    """The source of a rule: a recording of AWS in LocalStack's tests, and when it was made.

    Args:
        test: Path of the test file below `tests/aws/services` and name of the test.
        date: Year and month.
    """
    return f"recorded {date}: {test}"


@dataclass(frozen=True)
class Repair:
    """A repair that the embedded AWS needs to answer as it does.

    Attributes:
        name: Its module in `longhaul/local/moto_repairs`, and its function.
        stock: Stock moto's answer.
    """

    name: str
    stock: Answer


@dataclass(frozen=True)
class Rule:
    """A call whose answer matters to Longhaul.

    Attributes:
        probe: Makes the call and returns the answer. Its name is the name of the rule.
        aws: AWS's answer. Several where AWS leaves it open.
        source: The page of AWS's documentation, or the recording.
        fake: The strict fakes' answer, where it differs.
        embedded: The answer of the embedded AWS (moto with its repairs), where it differs.
        oracle: The answer of DynamoDB Local, where it differs.
        why: Who is right where one differs, and what follows for Longhaul.
        repair: What makes moto answer so. Stock moto is asked too.
    """

    probe: Callable[[Aws], Any]
    aws: Answer
    source: str
    fake: Answer | None = None
    embedded: Answer | None = None
    oracle: Answer | None = None
    why: str = ""
    repair: Repair | None = None

    @property
    def name(self) -> str:
        """The rule in words."""
        name = self.probe.__name__
        return name.replace("_", " ") if name.isidentifier() else name

    def expected(self, engine: str) -> tuple[str, ...]:
        """The answers that the engine `fake`, `embedded`, `oracle` or `stock` may give."""
        if engine == "stock":
            answer: Answer | None = self.repair.stock if self.repair else NOT_ASKED
        else:
            answer = getattr(self, engine)
        if answer is None:
            answer = self.aws
        return (answer,) if isinstance(answer, str) else answer


Probe = Callable[[Aws], Any]


class Rules(list[Rule]):
    """The rules of a module, in their order."""

    def add(
        self,
        aws: Answer,
        source: str,
        *,
        fake: Answer | None = None,
        embedded: Answer | None = None,
        oracle: Answer | None = None,
        why: str = "",
        repair: Repair | None = None,
    ) -> Callable[[Probe], Probe]:
        """Adds the rule of the decorated probe; see `Rule` for its parts."""

        def added(probe: Probe) -> Probe:
            self.append(Rule(probe, aws, source, fake, embedded, oracle, why, repair))
            return probe

        return added

    def row(self, name: str, probe: Probe, aws: Answer, source: str, **differs: Any) -> None:
        """Adds the rule of a probe that a function makes; the name says what it is about."""
        probe.__name__ = name
        self.add(aws, source, **differs)(probe)
