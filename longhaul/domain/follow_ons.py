"""What follows a success: jobs for the next stages, and arrivals where a fan-out is joined. Pure.

Everything is derived from the job that succeeded. A repetition sends the same jobs under the same
ids: duplicates, which the dispatcher deletes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.lease import Lease, job_key, joined_ref
from longhaul.domain.lineage import MAX_GROUP, Group, Lineage, child_id
from longhaul.domain.paths import FOLLOW_ONS_PREFIX
from longhaul.domain.request import JobRequest
from longhaul.settings import RuntimeSettings, Stage

Emitted = Mapping[str, Sequence[Mapping[str, Any]]]
"""The requests that a job emitted, by stage: a body's fields without `job_id` and `lineage`.

A stage with an empty list was named on purpose: the job emitted none for it.
"""


@dataclass(frozen=True)
class FollowOn:
    """A job to send."""

    stage: str
    body: str


@dataclass(frozen=True)
class Join:
    """One job that starts in `stage` when the whole group has arrived."""

    stage: str
    group: Group  # of the member that arrived; its `n` is the place
    lineage: Lineage  # of the job to start
    upstream: str

    @property
    def key(self) -> str:
        """Partition key of the arrivals' items."""
        return f"join#{self.stage}#{self.group.id}"


@dataclass(frozen=True)
class Joined:
    """A join whose group has arrived: its request, and the inputs that are stored beside it.

    Where an output is no longer known, the request has null for that input: no dispatcher takes it.
    """

    job: FollowOn
    key: str
    inputs_ref: str
    inputs: Mapping[str, str | None]
    missing: tuple[str, ...]  # names of inputs


@dataclass(frozen=True)
class Arrival:
    """A member of the group has reached a join; `output` is the prefix that it published."""

    join: Join
    output: str


def follow_ons(
    lease: Lease, emitted: Emitted | None, settings: RuntimeSettings
) -> Iterator[FollowOn | Arrival | Join]:
    """What follows a job that succeeded.

    What it emitted, for each stage that it named; a deploy may have led elsewhere since. For each
    other next stage, when it emitted nothing, one job with its output as the input. At a stage that
    joins, the job arrives. A `Join` by itself belongs to an empty group: it starts at once, or the
    stages behind it would wait for ever. A stage that it emitted for may have been taken out.
    """
    output = lease.attempt.output
    if output is None:
        raise AssertionError(f"{lease.key} has no output to follow")
    following = settings.stage_or_removed(lease.stage).next
    for name, requests in (emitted or {}).items():
        target = settings.stage_or_removed(name)
        for n, request in enumerate(requests):
            group = Group(of=lease.key, run=lease.run, n=n, size=len(requests))
            yield _follow_on(lease, target, (*groups_of(lease), group), n, request, settings)
        if not requests:
            yield from _joins_of_none(lease, target, settings)
    for name in following:
        target = settings.stage(name)
        if target.join:
            yield Arrival(_join(lease, target, groups_of(lease)), output.prefix)
        elif emitted is None:
            inputs = {_input_name(lease.stage): output.prefix}
            yield _follow_on(lease, target, groups_of(lease), 0, {"inputs": inputs}, settings)


def joined(
    join: Join, outputs: Mapping[int, str], emitter: Lease | None, settings: RuntimeSettings
) -> Joined:
    """The job that starts when all have arrived. `emitter`: the row of the job that emitted them.

    Its inputs are their outputs, in the order in which the members were emitted; an output to which
    several of them added is one input, named after the first. They are stored beside the request,
    which names them: thousands of paths do not fit into a message.
    """
    job_id = child_id(join.lineage.root, join.stage, join.group.of, join.group.run, "join")
    key = job_key(join.stage, job_id)
    name = _input_name(join.upstream)
    places = range(join.group.size)
    # From the last place to the first, so that the first one stays.
    first = {outputs[n]: n for n in reversed(places) if n in outputs}
    inputs = {
        f"{name}_{n:05}": outputs.get(n)
        for n in places
        if n not in outputs or first[outputs[n]] == n
    }
    missing = tuple(each for each, output in inputs.items() if output is None)
    request = {"inputs": dict.fromkeys(missing)}
    seal = seal_of(emitter) if emitter else None
    lineage = join.lineage.model_copy(update={"inputs_ref": joined_ref(key), "seal": seal})
    job = _sent(settings.stage(join.stage), job_id, request, lineage, settings)
    return Joined(job, key, joined_ref(key), inputs, missing)


def with_stored(request: JobRequest, stored: Mapping[str, str | None]) -> JobRequest:
    """A join's request with its inputs: those stored, and what is missing there from the request.

    Raises:
        InvalidRequestError: some are in neither.
    """
    inputs = {name: path or request.inputs.get(name) for name, path in stored.items()}
    missing = [name for name, path in inputs.items() if path is None]
    if missing:
        raise InvalidRequestError(
            [f"inputs: {len(missing)} are no longer known, {missing[0]} among them: fill them in"]
        )
    return request.model_copy(update={"inputs": inputs})


def body_at_most(
    lease: Lease, target: Stage, request: Mapping[str, Any], settings: RuntimeSettings
) -> str:
    """The body of a job that `lease` would emit for `target`, at the largest place of a group."""
    group = Group(of=lease.key, run=lease.run, n=MAX_GROUP, size=MAX_GROUP)
    return _follow_on(lease, target, (*groups_of(lease), group), 0, request, settings).body


def groups_of(lease: Lease) -> tuple[Group, ...]:
    """The groups that a job is in, outermost first; what it emits is in one more."""
    return lease.lineage.groups if lease.lineage else ()


def seal_of(lease: Lease) -> str | None:
    """The text that the row of a success shares with its follow-ons alone."""
    return lease.attempt.output.seal if lease.attempt.output else None


def _join(lease: Lease, target: Stage, groups: tuple[Group, ...]) -> Join:
    # A job that was submitted to the previous stage by hand is a group of its own.
    *outer, group = groups or (Group(of=lease.key, run=lease.run, n=0, size=1),)
    lineage = Lineage(root=lease.root, parent=group.of, groups=tuple(outer))
    return Join(target.name, group, lineage, upstream=lease.stage)


def _joins_of_none(lease: Lease, target: Stage, settings: RuntimeSettings) -> Iterator[Join]:
    """The joins at the end of an empty group that begins at `target`."""
    none = Group(of=lease.key, run=lease.run, n=0, size=0)
    for name in target.next:
        following = settings.stage(name)
        if following.join:
            lineage = Lineage(root=lease.root, parent=lease.key, groups=groups_of(lease))
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
    lineage = Lineage(root=lease.root, parent=lease.key, groups=groups, seal=seal_of(lease))
    return _sent(target, job_id, request, lineage, settings)


def _sent(
    target: Stage,
    job_id: str,
    request: Mapping[str, Any],
    lineage: Lineage,
    settings: RuntimeSettings,
) -> FollowOn:
    body = {
        **with_output(target, job_id, request, settings),
        "job_id": job_id,
        "lineage": lineage.model_dump(exclude_none=True),
    }
    return FollowOn(target.name, json.dumps(body, separators=(",", ":")))


def with_output(
    target: Stage, job_id: str, request: Mapping[str, Any], settings: RuntimeSettings
) -> Mapping[str, Any]:
    """The request of a job that follows; where it names no output, with the one of its stage."""
    if "output" in request:
        return request
    if target.follow_on.output:
        return {**target.follow_on.model_dump(), **request}
    prefix = f"s3://{settings.paths.data_bucket}/{FOLLOW_ONS_PREFIX}{job_id}/"
    return {"output": prefix, **request}


def _input_name(stage: str) -> str:
    return stage.replace("-", "_")
