"""A stage's variables: read, given to the process of its job, and their secrets kept from its log.

What programs print that the job starts is in its log as it is: they write there themselves.
"""

import os
import sys
from collections.abc import Mapping
from threading import RLock
from typing import Any, Final, TextIO

from longhaul.domain.errors import SecretUnreadableError
from longhaul.domain.masking import Mask
from longhaul.domain.secret_refs import SecretRef
from longhaul.ports import SecretValues
from longhaul.runner import json_logs
from longhaul.settings import JobVariables

# A line that does not end is printed after so many characters.
_MAX_LINE: Final = 65_536


def read_variables(own: JobVariables, values: SecretValues) -> tuple[dict[str, str], Mask]:
    """What a stage has for the environment of its jobs, and what keeps its secrets out of logs.

    Raises:
        SecretUnreadableError: a secret is denied, or not there, or no variable can hold it.
    """
    secrets: dict[str, str] = {}
    for name, text in own.secrets.items():
        try:
            secrets[name] = values.read_secret(SecretRef.parse(text))
        except SecretUnreadableError as error:
            raise SecretUnreadableError(f"{name}: {error}") from error
        if "\0" in secrets[name]:
            raise SecretUnreadableError(f"{name}: its value has a NUL: no variable can hold it")
    return {**own.environment, **secrets}, Mask(secrets)


def give_to_process(variables: Mapping[str, str], mask: Mask) -> None:
    """Set the variables, and cut secrets out of what this process logs and prints from now on."""
    os.environ.update(variables)
    json_logs.cut_out(mask)
    sys.stdout, sys.stderr = MaskedStream(sys.stdout, mask), MaskedStream(sys.stderr, mask)


class MaskedStream:
    """A stream of text that prints whole lines, without secrets."""

    def __init__(self, stream: TextIO, mask: Mask) -> None:
        self._stream = stream
        self._mask = mask
        self._begin()
        # A process that a job forks has neither the thread that holds the lock, nor printed the
        # line that its parent began.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._line = ""
        self._lock = RLock()  # jobs print from threads of their own

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a stream has
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._lock:
            said = self._line + text
            lines, end, self._line = said.rpartition("\n")
            if end:
                masked = self._mask(lines) + end
                if self._line and self._mask(said) != masked + self._mask(self._line):
                    # A secret of several lines, of which the last one has not ended.
                    self._line = said
                    self._print_rest()
                else:
                    self._stream.write(masked)
            if len(self._line) > _MAX_LINE:
                self._print_rest()
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with self._lock:
            self._print_rest()
            self._stream.flush()

    def _print_rest(self) -> None:
        rest, self._line = self._line, ""
        self._stream.write(self._mask(rest))
