"""What follows a success: jobs for the next stages, and arrivals where a fan-out is joined. Pure.

Everything here is derived from the job that succeeded, so doing it again sends the same jobs under the same ids: duplicates, which the dispatcher deletes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longhaul.domain.lease import Lease
from longhaul.domain.lineage import Group, Lineage, child_id
from longhaul.settings import RuntimeSettings, Stage

Emitted = Mapping[str, Sequence[Mapping[str, Any]]]
"""The requests that a job emitted, by stage: a body's fields without `job_id` and `lineage`. A stage that is there with none was told so on purpose."""


@dataclass(frozen=True)
class FollowOn:
    """A job to send."""

    stage: str
    body: str


@dataclass(frozen=True)
class Join:
    """One job is to start in `stage` when the whole group is there."""

    stage: str
    group: Group  # of whoever arrived; its `n` is the place
    lineage: Lineage  # of the job that is to start
    upstream: str

    @property
    def key(self) -> str:
        """Under which the arrivals are kept."""
        return f"join#{self.stage}#{self.group.id}"


@dataclass(frozen=True)
class Arrival:
    """One of the group has come to a join; `output` is what it published."""

    join: Join
    output: str


def follow_ons(lease: Lease, emitted: Emitted | None, settings: RuntimeSettings) -> Iterator[FollowOn | Arrival | Join]:
    """What a job that succeeded leads to.

    For each next stage: the jobs that it emitted for it; or, when it emitted nothing for any, one job with its output as the input. At a stage that joins, the
    job arrives. A `Join` by itself is one of a group of none: nobody will arrive, and it starts at once, so that nothing behind it waits for ever.
    """
    if lease.output is None:
        raise AssertionError(f"{lease.key} has no output to follow")
    for name in settings.stage(lease.stage).next:
        target = settings.stage(name)
        if target.join:
            yield Arrival(_join(lease, target, _groups(lease)), lease.output.prefix)
        elif emitted is None:
            inputs = {_input_name(lease.stage): lease.output.prefix}
            yield _follow_on(lease, target, _groups(lease), 0, {"inputs": inputs}, settings)
        else:
            requests = emitted.get(name, ())
            for n, request in enumerate(requests):
                group = Group(of=lease.key, run=lease.run, n=n, size=len(requests))
                yield _follow_on(lease, target, (*_groups(lease), group), n, request, settings)
            if not requests and name in emitted:
                yield from _joins_of_none(lease, target, settings)


def joined(join: Join, outputs: Mapping[int, str], settings: RuntimeSettings) -> FollowOn:
    """The job that starts when all have arrived: with the output of each as an input, in the order in which they were emitted."""
    name = _input_name(join.upstream)
    inputs = {f"{name}_{n:05}": outputs[n] for n in sorted(outputs)}
    job_id = child_id(join.lineage.root, join.stage, join.group.of, join.group.run, "join")
    return _sent(settings.stage(join.stage), job_id, {"inputs": inputs}, join.lineage, settings)


def _groups(lease: Lease) -> tuple[Group, ...]:
    return lease.lineage.groups if lease.lineage else ()


def _join(lease: Lease, target: Stage, groups: tuple[Group, ...]) -> Join:
    # A job that nobody emitted, submitted to the stage before by hand, is a group of its own.
    *outer, group = groups or (Group(of=lease.key, run=lease.run, n=0, size=1),)
    lineage = Lineage(root=lease.root, parent=group.of, groups=tuple(outer))
    return Join(target.name, group, lineage, upstream=lease.stage)


def _joins_of_none(lease: Lease, target: Stage, settings: RuntimeSettings) -> Iterator[Join]:
    """The joins in which a group that begins at `target` would end, had it members."""
    none = Group(of=lease.key, run=lease.run, n=0, size=0)
    for name in target.next:
        following = settings.stage(name)
        if following.join:
            lineage = Lineage(root=lease.root, parent=lease.key, groups=_groups(lease))
            yield Join(name, none, lineage, upstream=target.name)
        else:
            yield from _joins_of_none(lease, following, settings)


def _follow_on(
    lease: Lease,
    target: Stage,
    groups: tuple[Group, ...],
    n: int,
    request: Mapping[str, Any],
    settings: RuntimeSettings,
) -> FollowOn:
    job_id = child_id(lease.root, target.name, lease.key, lease.run, n)
    return _sent(target, job_id, request, Lineage(root=lease.root, parent=lease.key, groups=groups), settings)


def _sent(
    target: Stage, job_id: str, request: Mapping[str, Any], lineage: Lineage, settings: RuntimeSettings
) -> FollowOn:
    body = {
        "output": f"s3://{settings.paths.data_bucket}/stages/{job_id}/",
        **request,
        "job_id": job_id,
        "lineage": lineage.model_dump(mode="json"),
    }
    return FollowOn(target.name, json.dumps(body, separators=(",", ":")))


def _input_name(stage: str) -> str:
    return stage.replace("-", "_")
