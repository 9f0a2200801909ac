"""The jobs that a job asks for: checked at once, kept beside its output, sent at its success."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from longhaul.core.descent import MAX_GROUP, Group, Lineage
from longhaul.core.errors import InvalidRequestError, PermanentJobError
from longhaul.core.lease import Lease
from longhaul.core.message import Message, size_problem
from longhaul.core.objects import MAX_FOOTPRINT, footprint
from longhaul.core.policy import parse_request
from longhaul.core.settings import RuntimeSettings, Stage
from longhaul.job import Request
from longhaul.pipelines.follow_ons import body_at_most, fan_out_problem, with_output

_OURS = ("job_id", "lineage")

MAX_EMITTED_BYTES = 64 * 1024 * 1024
"""What one job may emit in all.

Settle reads it at once, and sends it within its timeout: 64 MiB are 64 to 500 calls of SQS.
"""


class EmitError(PermanentJobError):
    """The job's code is wrong: its request can never run or be sent, or no such stage follows."""


@dataclass
class Emitter:
    """Collects the requests by stage: None until the job emits, empty if it emits none."""

    settings: RuntimeSettings
    stage: Stage
    lease: Lease
    requests: dict[str, list[Request]] | None = field(default=None, init=False)
    _bytes: int = field(default=0, init=False)
    _weight: int = field(default=0, init=False)

    @property
    def following(self) -> tuple[str, ...]:
        """The next stages; of a stage that was taken out before this task began, what they were."""
        return (self.lease.leads_to or ()) if self.stage.is_removed else self.stage.next

    def emit(self, requests: Sequence[Request], stage: str | None) -> None:
        """Keep the requests for a next stage.

        Raises:
            EmitError: no such next stage, one that joins, too many jobs, or a request that is not
                valid or could not be sent; the message says which and why.
        """
        target = self._target(stage)
        size = sum(self._checked_size(n, request, target) for n, request in enumerate(requests))
        # Settle reads them as a whole, and short values take far more there than their text.
        weight = footprint(json.dumps(list(requests)).encode())
        if self._bytes + size > MAX_EMITTED_BYTES or self._weight + weight > MAX_FOOTPRINT:
            raise EmitError(
                f"emit: one job may emit {MAX_EMITTED_BYTES:,} bytes of requests, and fewer of many"
                " short values: put what is large into objects on S3, and name those"
            )
        kept = {} if self.requests is None else self.requests
        group = kept.setdefault(target.name, [])
        if len(group) + len(requests) > MAX_GROUP:
            raise EmitError(
                f"emit: one job may emit {MAX_GROUP:,} jobs into {target.name}; make groups of"
                " groups"
            )
        whole = Group(of=self.lease.key, run=self.lease.run, n=0, size=len(group) + len(requests))
        if problem := fan_out_problem((*self.lease.groups, whole)):
            raise EmitError(f"emit: {problem}")
        group += requests
        self.requests = kept
        self._bytes += size
        self._weight += weight

    def _target(self, name: str | None) -> Stage:
        following = self.following
        if name is None and len(following) == 1:
            (name,) = following
        if name is None or name not in following:
            ways = (
                f"leads to {', '.join(following)}: name one with stage="
                if following
                else "leads to no other"
            )
            raise EmitError(f"emit: stage {self.stage.name} {ways}")
        target = self.settings.stage_or_removed(name)
        if target.join:
            raise EmitError(
                f"emit: {name} joins what comes through {self.stage.name}; it starts by itself,"
                " once"
            )
        return target

    def _checked_size(self, n: int, request: Request, target: Stage) -> int:
        """Bytes of the body that will be sent for a request, at most."""
        if ours := [name for name in _OURS if name in request]:
            raise EmitError(
                f"emit: request {n}: {' and '.join(ours)} is ours to give: the same job must not"
                " start twice"
            )
        # Whatever it leaves out is filled in when it is sent.
        lineage = Lineage(root=self.lease.root, parent=self.lease.key)
        whole = with_output(target, "x", request, lineage, self.settings)
        try:
            parse_request(json.dumps(whole), self.settings, target)
        except InvalidRequestError as error:
            raise EmitError(f"emit: request {n}: {error}") from None
        except TypeError as error:
            raise EmitError(f"emit: request {n} is not JSON: {error}") from None
        body = body_at_most(self.lease, target, request, self.settings)
        if problem := size_problem(Message(body, {})):
            raise EmitError(f"emit: request {n}: {problem}")
        return len(body)
