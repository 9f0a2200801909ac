"""How S3 completes a multipart upload: at once, or slowly, as it does for large files.

A completion may take minutes. AWS does not say what another one of the same upload gets meanwhile,
so the fake can do each of what was seen or may be.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from simulation.aws.service import Answer

Meanwhile = Literal["gone", "repeats", "waits"]
"""What another completion gets: NoSuchUpload; the same answer, with no object yet; or that later.

While it is `gone`, the upload is neither listed nor aborted.
"""


@dataclass(frozen=True)
class Completion:
    """`fails`: it ends with an InternalError, and the upload is pending again."""

    takes_s: float = 0.0
    meanwhile: Meanwhile = "gone"
    fails: bool = False

    @classmethod
    def of(cls, kind: str | None) -> "Completion":
        """The completion of a fault of a plan, such as `gone/40`; None is the usual one."""
        if kind is None:
            return AT_ONCE
        what, _, seconds = kind.partition("/")
        match what:
            case "gone" | "repeats" | "waits":
                return cls(float(seconds), what)
            case "fails":
                return cls(float(seconds), fails=True)
        raise ValueError(f"no such completion: {kind}")


AT_ONCE = Completion()

KINDS = ("gone/40", "gone/400", "repeats/40", "repeats/400", "waits/40", "waits/400", "fails/40")
"""Those of drawn worlds, with their seconds."""


@dataclass(frozen=True)
class Completing:
    """A completion that S3 works on."""

    how: Completion
    until: datetime
    body: bytes
    answer: Answer
