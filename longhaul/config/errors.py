"""What is wrong with settings, and what is raised for it. Loads nothing that takes time."""

from typing import NamedTuple

Location = tuple[int | str, ...]
"""Where a setting is, such as `("stages", 0, "slots")`."""


class Case(NamedTuple):
    """What a rule of the settings looks at: where it would be wrong, whether it is, and why."""

    location: Location
    is_wrong: object
    why: str


class SettingsError(ValueError):
    """The settings are wrong.

    The message names each wrong setting, why it is wrong, and what is allowed.
    """


class Problem(NamedTuple):
    """A wrong setting: where it is, and why it is wrong."""

    location: Location
    why: str

    def at(self, where: str) -> str:
        """As a line that begins with where the settings are."""
        return f"{'.'.join(map(str, (where, *self.location)))}: {self.why}"
