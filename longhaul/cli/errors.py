"""How a command ends. Loads nothing that takes time: help and completion need it too."""

from enum import IntEnum


class ExitStatus(IntEnum):
    """Documented in `longhaul --help` and docs/reference/cli.md: scripts rely on them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNREACHABLE = 4
    INTERRUPTED = 130


class CommandError(Exception):
    """Ends a command. The message is for people, and says what to do."""

    def __init__(self, message: str, status: ExitStatus = ExitStatus.FAILED) -> None:
        super().__init__(message)
        self.status = status
