"""Bugs about the secrets of stages."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_VALUES: Final = "longhaul/adapters/secret_values.py"
_FAILURES: Final = "longhaul/runner/failures.py"

SECRETS: Final = (
    Mutant(
        "a secret that is not there counts as a failure of the job",
        _VALUES,
        "if not is_denied(error) and code not in _UNTIL_MENDED:",
        "if not is_denied(error):",
    ),
    Mutant(
        "a secret that is denied counts as a failure of the job",
        _VALUES,
        "if not is_denied(error) and code not in _UNTIL_MENDED:",
        "if code not in _UNTIL_MENDED:",
    ),
    Mutant(
        "a secret that cannot be read dead-letters the job",
        _FAILURES,
        "case PermanentError():",
        "case PermanentError() | DeniedError():",
    ),
    Mutant(
        "an attempt has the secret that an earlier one has read",
        _VALUES,
        "self._read: dict[tuple[str, str, str], str] = {}",
        "self._read = AwsSecretValues.__init__.__dict__.setdefault('read', {})",
    ),
    Mutant(
        "the error of a job shows a secret",
        _FAILURES,
        "said = without_values(mask(raw), {**(params or {})})",
        "said = without_values(raw, {**(params or {})})",
    ),
    Mutant(
        "a job begins although its secret cannot be read",
        "longhaul/runner/variables.py",
        'raise SecretUnreadableError(f"{name}: {error}") from error',
        "continue",
    ),
)
