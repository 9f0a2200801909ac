"""What follows a success: jobs for the next stages, and what changes at the joins. Pure.

Everything is derived from the job that succeeded. A repetition sends the same jobs under the same
ids: duplicates, which the dispatcher deletes.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import prod
from operator import itemgetter
from typing import Any, Protocol
from urllib.parse import quote

from longhaul.core.descent import MAX_GROUP, Emitted, Group, Lineage, child_id
from longhaul.core.errors import InvalidRequestError
from longhaul.core.lease import CommittedOutput, Lease, job_key, joined_ref, plain_next
from longhaul.core.request import MAX_TAG_BYTES, MAX_TAGS, JobRequest, Named, bytes_of
from longhaul.core.settings import RuntimeSettings, Stage
from longhaul.pipelines.pipeline import Pipeline

MAX_FAMILY = 100_000
"""Jobs that fan-outs within fan-outs may lead to: the product of their sizes.

One submission must not become 25 million jobs, which two fan-outs of 5,000 would. Fixed, because a
stage cannot know what comes before it; more is several submissions.
"""

MAX_DEPTH = 8
"""Fan-outs within fan-outs. A join closes those since its opener."""


@dataclass(frozen=True)
class FollowOn:
    """A job to send."""

    stage: str
    body: str


@dataclass(frozen=True)
class Join:
    """One job that starts in `stage` when all that it waits for has arrived."""

    stage: str
    of: str  # key of the job that the join belongs to
    lineage: Lineage  # of the job to start
    upstream: str

    @property
    def key(self) -> str:
        """Partition key of the join's items."""
        return join_key(self.stage, self.of)


def named_after(parent: Named, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request of a job that follows from `parent`, with the parent's label and tags.

    What the request says itself counts. Where both have more tags than a
    request may, those of the parent are left out that are too many.
    """
    own: Mapping[str, str] = request.get("tags") or {}
    tags = dict(own)
    for name, value in parent.tags.items():
        longer = {**tags, name: value}
        if name not in tags and len(longer) <= MAX_TAGS and bytes_of(longer) <= MAX_TAG_BYTES:
            tags = longer
    label = request.get("label") or parent.label
    names = {"label": label, "tags": tags}
    return {**request, **{name: value for name, value in names.items() if value}}


def fan_out_problem(groups: Sequence[Group]) -> str | None:
    """Why fan-outs within fan-outs are too many, in words; None when they are not.

    The product bounds all jobs of such a tree: however the members share it, each path through the
    tree has its own product, and the leaves are no more than the largest.
    """
    if (depth := sum(group.size != 1 for group in groups)) > MAX_DEPTH:
        return f"{depth} fan-outs within each other; at most {MAX_DEPTH}: join some first"
    if (family := prod(group.size for group in groups)) > MAX_FAMILY:
        sizes = " by ".join(f"{group.size:,}" for group in groups)
        return (
            f"fan-outs of {sizes} may lead to {family:,} jobs; at most {MAX_FAMILY:,}: submit in"
            " several parts"
        )
    return None


def join_key(stage: str, of: str) -> str:
    """Partition key of the items of the join that belongs to the job `of`."""
    return f"join#{stage}#{of}"


@dataclass(frozen=True)
class Joined:
    """A join that waits for nothing more: its request, and the inputs that are stored beside it."""

    job: FollowOn
    inputs_ref: str
    inputs: Mapping[str, str]


@dataclass(frozen=True)
class Replaced:
    """What a join waits for in the place of a job that succeeded: the jobs that it led to.

    `path` has stage and place of each job behind the opener, down to this one; the opener's own is
    empty. The places are also the order of the join's inputs. `output` is the prefix that a job in
    the stage before the join published: it has arrived.
    """

    join: Join
    path: tuple[tuple[str, int], ...]
    by: Mapping[str, int]  # stage and number
    output: str | None
    run: int  # of the job
    of: int = 0  # run of the job before it; 0 of the opener itself


@dataclass(frozen=True)
class JoinStanding:
    """For how many jobs a join waits, and how often a later run has changed what it waits for."""

    waits_for: int
    changes: int


@dataclass(frozen=True)
class Complete:
    """A join that waits for nothing more.

    `outputs`: by branch, each in the order in which its jobs were emitted. `lineage`: of its job,
    without `inputs_ref`.
    """

    outputs: Sequence[str]
    lineage: Lineage


def follow_ons(
    lease: Lease, emitted: Emitted | None, settings: RuntimeSettings
) -> Iterator[FollowOn]:
    """What follows a job that succeeded, but for the joins that it is counted at.

    What it emitted, for each stage that it named; a deploy may have led elsewhere since. For each
    other next stage, when it emitted nothing, one job with its output as the input. A stage that it
    emitted for may have been taken out.
    """
    output = _output_of(lease)
    for name, requests in (emitted or {}).items():
        target = settings.stage_or_removed(name)
        for n, request in enumerate(requests):
            groups = (*lease.groups, place_behind(lease, n, len(requests)))
            yield _follow_on(lease, target, groups, n, request, settings)
    if emitted is None:
        for name in _leads_to(lease, settings):
            target = settings.stage_or_removed(name)
            inputs = {lease.stage: output.prefix}
            yield _follow_on(lease, target, groups_behind(lease), 0, {"inputs": inputs}, settings)


def replaced(
    lease: Lease, emitted: Emitted | None, settings: RuntimeSettings
) -> Iterator[Replaced]:
    """What a success changes at each join that may wait for the job, and at its own.

    All of it must be noted before anything that follows is sent. A join that waits for others alone
    does not know the place.
    """
    output = _output_of(lease)
    if not lease.has_joins:
        return
    pipeline = Pipeline(settings.stages)
    if emitted is None:
        led_to = dict.fromkeys(_leads_to(lease, settings), 1)
    else:
        led_to = {name: len(requests) for name, requests in emitted.items()}

    def leads(to: str, join: str) -> bool:
        # Of a join that was taken out, or to which no stage leads any more, all that follows is
        # counted: in the end it starts, or becomes a dead letter.
        return join not in pipeline.joins or pipeline.leads(to, join)

    def starts(join: str) -> bool:
        # Its own stage may have been taken out since, or lead elsewhere.
        ways = (lease.stage, *led_to) if join in pipeline.joins else tuple(led_to)
        return any(leads(to, join) for to in ways)

    for name in pipeline.joins:  # each behind those that lead to it
        if name in lease.opens and starts(name):
            led_to[name] = 1
    groups = (*lease.groups, place_behind(lease, 0, 1))
    stages = [group.of.partition("#")[0] for group in groups]
    for depth, opener in enumerate(groups):
        path = tuple(zip(stages[depth + 1 :], (group.n for group in groups[depth:-1]), strict=True))
        for name in opener.opens or ():
            if name in stages[depth + 1 :] or _joins_no_more(name, settings):
                continue  # the job descends from it, or leads to one of its own there
            if not path and not starts(name):
                continue
            by = {to: count for to, count in led_to.items() if count and leads(to, name)}
            at = pipeline.collected(name) if name in pipeline.joins else lease.stage
            is_last = lease.stage == at and (name in pipeline.joins or not led_to)
            place = opener.model_copy(update={"n": 0, "size": 1})
            lineage = Lineage(
                root=lease.root,
                parent=opener.of,
                groups=(*groups[:depth], place),
                seal=None if path else seal_of(lease),
            )
            yield Replaced(
                Join(name, opener.of, lineage, upstream=at),
                path,
                by,
                output.prefix if is_last else None,
                lease.run,
                groups[-2].run if path else 0,
            )


def joined(
    join: Join, outputs: Sequence[str], opener: Lease | None, settings: RuntimeSettings
) -> Joined:
    """The job that starts when all have arrived.

    `opener`: the row of the job that it belongs to, whose label it gets.

    Its inputs are the `outputs`, in their order; an output to which several of them added is one
    input, named after the first. They are stored beside the request, which names them: thousands of
    paths do not fit into a message.
    """
    job_id = child_id(join.lineage.root, join.stage, join.of, "join")
    # From the last to the first, so that the first one stays.
    first = {output: n for n, output in reversed([*enumerate(outputs)])}
    inputs = {
        f"{join.upstream}_{n:05}": output for output, n in sorted(first.items(), key=itemgetter(1))
    }
    request = named_after(opener, {}) if opener is not None else {}
    inputs_ref = joined_ref(job_key(join.stage, job_id), join.lineage.run)
    lineage = join.lineage.model_copy(update={"inputs_ref": inputs_ref})
    job = _sent(settings.stage_or_removed(join.stage), job_id, request, lineage, settings)
    return Joined(job, inputs_ref, inputs)


def with_stored(request: JobRequest, stored: Mapping[str, str]) -> JobRequest:
    """A join's request with its inputs, which are stored beside it.

    Raises:
        InvalidRequestError: they are too many.
    """
    if problem := inputs_problem(len(stored)):
        raise InvalidRequestError([f"inputs: {problem}"])
    return request.model_copy(update={"inputs": dict(stored)})


def inputs_problem(count: int) -> str | None:
    """Why a join has too many inputs, in words; None when it has not."""
    if count <= MAX_GROUP:
        return None
    return (
        f"{count:,} inputs of a join; at most {MAX_GROUP:,}: let the jobs before it add to a table,"
        " which is one input, or join them in parts first"
    )


def body_at_most(
    lease: Lease, target: Stage, request: Mapping[str, Any], settings: RuntimeSettings
) -> str:
    """The body of a job that `lease` would emit for `target`, at the largest place of a group."""
    groups = (*lease.groups, place_behind(lease, MAX_GROUP, MAX_GROUP))
    return _follow_on(lease, target, groups, 0, request, settings).body


def groups_behind(lease: Lease) -> tuple[Group, ...]:
    """The groups of the one job that follows from this one, or of a join that belongs to it."""
    outer = lease.groups
    return (*outer, place_behind(lease, 0, 1)) if lease.has_joins else outer


def with_joins(lease: Lease, settings: RuntimeSettings) -> Lease:
    """The row of a run that begins, with the joins that belong to it.

    None belongs to it that a job before it has opened.
    """
    before = {name for group in lease.groups for name in group.opens or ()}
    found = Pipeline(settings.stages).opened_by(lease.stage)
    return replace(lease, opens=tuple(name for name in found if name not in before))


def _output_of(lease: Lease) -> CommittedOutput:
    if lease.attempt.output is None:
        raise AssertionError(f"{lease.key} has no output to follow")
    return lease.attempt.output


def _joins_no_more(name: str, settings: RuntimeSettings) -> bool:
    """Whether a deploy made a plain stage of one that joined."""
    stage = settings.stage_or_removed(name)
    return not stage.is_removed and not stage.join


def _leads_to(lease: Lease, settings: RuntimeSettings) -> tuple[str, ...]:
    if lease.leads_to is not None:
        return lease.leads_to
    return plain_next(settings.stage_or_removed(lease.stage), settings)


def seal_of(lease: Lease) -> str | None:
    """The text that the row of a success shares with its follow-ons alone."""
    return lease.attempt.output.seal if lease.attempt.output else None


def place_behind(lease: Lease, n: int, size: int) -> Group:
    """The innermost group of a job that follows from this one."""
    return Group(of=lease.key, run=lease.run, n=n, size=size, opens=lease.opens or None)


def _follow_on(
    lease: Lease,
    target: Stage,
    groups: tuple[Group, ...],
    n: int,
    request: Mapping[str, Any],
    settings: RuntimeSettings,
) -> FollowOn:
    job_id = child_id(lease.root, target.name, lease.key, n)
    lineage = Lineage(
        root=lease.root, parent=lease.key, run=lease.run, groups=groups, seal=seal_of(lease)
    )
    return _sent(target, job_id, named_after(lease, request), lineage, settings)


def _sent(
    target: Stage,
    job_id: str,
    request: Mapping[str, Any],
    lineage: Lineage,
    settings: RuntimeSettings,
) -> FollowOn:
    body = {
        **with_output(target, job_id, request, lineage, settings),
        "job_id": job_id,
        "lineage": lineage.model_dump(exclude_none=True),
    }
    return FollowOn(target.name, json.dumps(body, separators=(",", ":")))


def with_output(
    target: Stage,
    job_id: str,
    request: Mapping[str, Any],
    lineage: Lineage,
    settings: RuntimeSettings,
) -> Mapping[str, Any]:
    """The request of a job that follows; where it names no output, with the one of its stage."""
    if "output" in request:
        return request
    if target.follow_on.output:
        output = _filled(target.follow_on.output, target, request, lineage)
        return {"output": output, "mode": target.follow_on.used_mode, **request}
    # Of the data bucket, for follow-ons that name no output.
    prefix = f"s3://{settings.paths.data_bucket}/stages/{target.name}/{job_id}/"
    return {"output": prefix, **request}


def _filled(template: str, target: Stage, request: Mapping[str, Any], lineage: Lineage) -> str:
    """The output with the job's names in it; what differs differs there too."""
    label = str(request.get("label") or lineage.root.partition("#")[2])
    names = {
        "{label}": quote(label, safe="="),
        "{stage}": target.name,
        "{n}": "-".join(str(group.n) for group in lineage.groups) or "0",
    }
    return re.sub(r"\{\w+\}", lambda match: names[match[0]], template)


class Joins(Protocol):
    def note_success(self, replaced: Replaced, now: datetime) -> Complete | None:
        """Put what a job led to in its place among those for which a join waits; repeatable.

        What the join gets, once nothing is left to wait for, else None. A later run of a job
        replaces the earlier one, and all that descends from it; the join starts again then. A job
        that the join does not wait for changes nothing: a deploy has changed what leads there, or
        a later run has replaced the one that it descends from.
        """

    def noted_lineage(self, join_key: str) -> Lineage | None:
        """The lineage of a join's job, without `inputs_ref`, as noted with the opener's success.

        None: the opener has not succeeded.
        """

    def standings(self, join_keys: Iterable[str]) -> Mapping[str, JoinStanding]:
        """How joins stand, by key; strongly consistent. Not of those whose opener has not ended."""
