"""What a job asks to be run next: checked when it asks, kept beside its output, sent when it has succeeded."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.lineage import MAX_GROUP
from longhaul.domain.request import parse_request
from longhaul.settings import RuntimeSettings, Stage

Request = Mapping[str, JsonValue]

_OURS = ("job_id", "lineage")


class EmitError(Exception):
    """The job's code is wrong: it emits what can never run, or to where nothing leads."""


@dataclass
class Emitter:
    """`requests` is None until the job emits; a stage that is there with none was told so on purpose."""

    settings: RuntimeSettings
    stage: Stage
    requests: dict[str, list[Request]] | None = field(default=None, init=False)

    def emit(self, requests: Sequence[Request], stage: str | None) -> None:
        """Keep the requests for a next stage.

        Raises:
            EmitError: no such next stage, one that joins, too many jobs, or a request that is not valid; the message says which and why.
        """
        target = self._target(stage)
        for n, request in enumerate(requests):
            self._check(n, request, target)
        kept = {} if self.requests is None else self.requests
        group = kept.setdefault(target.name, [])
        if len(group) + len(requests) > MAX_GROUP:
            raise EmitError(f"emit: one job may emit {MAX_GROUP:,} jobs into {target.name}; make groups of groups")
        group += requests
        self.requests = kept

    def _target(self, name: str | None) -> Stage:
        following = self.stage.next
        if name is None and len(following) == 1:
            (name,) = following
        if name is None or name not in following:
            ways = f"leads to {', '.join(following)}: name one with stage=" if following else "leads to no other"
            raise EmitError(f"emit: stage {self.stage.name} {ways}")
        target = self.settings.stage(name)
        if target.join:
            raise EmitError(f"emit: {name} joins what comes through {self.stage.name}; it starts by itself, once")
        return target

    def _check(self, n: int, request: Request, target: Stage) -> None:
        if ours := [name for name in _OURS if name in request]:
            raise EmitError(
                f"emit: request {n}: {' and '.join(ours)} is ours to give: the same job must not start twice"
            )
        # What the request leaves out is filled in when it is sent.
        whole = {"output": f"s3://{self.settings.paths.data_bucket}/stages/x/", **request}
        try:
            parse_request(json.dumps(whole), self.settings, target)
        except InvalidRequestError as error:
            raise EmitError(f"emit: request {n}: {error}") from None
        except TypeError as error:
            raise EmitError(f"emit: request {n} is not JSON: {error}") from None
