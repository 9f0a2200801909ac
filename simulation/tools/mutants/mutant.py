"""A seeded bug."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A bug: `old` becomes `new`.

    Attributes:
        old: Code that `file` has exactly once, to the letter: statements, an expression, or a part
            of a line.
        new: Its replacement; empty to remove the code.
        also: A second change, where another rule hides the effect of the first.
    """

    name: str
    file: str
    old: str
    new: str
    also: "Mutant | None" = None

    @property
    def changes(self) -> "tuple[Mutant, ...]":
        return (self, *(self.also.changes if self.also else ()))
