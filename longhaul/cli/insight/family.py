"""A job and its follow-ons as a tree. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from longhaul.domain.lease import Lease, State
from longhaul.domain.pipeline import Pipeline


@dataclass
class Member:
    """A job and its follow-ons.

    Attributes:
        children: By stage, in the order in which they were emitted.
        unclaimed: By stage: how many jobs of a fan-out have no row yet, because they are queued.
    """

    lease: Lease
    children: "list[Member]" = field(default_factory=list)
    unclaimed: dict[str, int] = field(default_factory=dict)

    def all(self) -> "Iterator[Member]":
        """This member and everything below it."""
        yield self
        for child in self.children:
            yield from child.all()


def family(leases: Iterable[Lease], of: str) -> Member:
    """The tree of the rows of one root, from the job `of` downwards.

    Raises:
        KeyError: there is no row of that job.
    """
    members = {lease.key: Member(lease) for lease in leases}
    wanted = members[of]
    emitted: dict[str, Counter[str]] = defaultdict(Counter)
    sizes: dict[str, dict[str, int]] = defaultdict(dict)
    for member in members.values():
        lineage = member.lease.lineage
        # Rows expire: a parent may be gone when its child is still there.
        parent = members.get(lineage.parent) if lineage else None
        if lineage is None or parent is None:
            continue
        parent.children.append(member)
        group = lineage.groups[-1] if lineage.groups and not lineage.inputs_ref else None
        if group and (group.of, group.run) == (parent.lease.key, parent.lease.run):
            emitted[parent.lease.key][member.lease.stage] += 1
            sizes[parent.lease.key][member.lease.stage] = group.size
    for member in members.values():
        member.children.sort(key=_place)
        key = member.lease.key
        missing = {stage: size - emitted[key][stage] for stage, size in sizes[key].items()}
        member.unclaimed = {stage: count for stage, count in missing.items() if count > 0}
    return wanted


def _place(member: Member) -> tuple[int, str, int, str]:
    """In the order of stages and of the fan-out; a join comes after the jobs that it joins."""
    lineage, lease = member.lease.lineage, member.lease
    is_join = lineage is not None and lineage.inputs_ref is not None
    group = lineage.groups[-1] if lineage and lineage.groups and not is_join else None
    is_emitted = lineage is not None and group is not None and group.of == lineage.parent
    return (0 if is_emitted else 1, lease.stage, group.n if is_emitted and group else 0, lease.key)


def waits(member: Member, join: str, pipeline: Pipeline) -> tuple[int, int]:
    """For how many jobs a join of the member waits, and of how many; as far as they are known.

    Jobs in the stage before the join count, and in their place those that have not got there.
    """
    stage = member.lease.stage
    if member.lease.state is not State.SUCCEEDED:
        return 1, 1
    if stage == pipeline.collected(join):
        return 0, 1
    found = [
        waits(child, join, pipeline)
        for child in member.children
        if pipeline.leads(child.lease.stage, join)
    ]
    here = {child.lease.stage for child in member.children}
    queued = sum(n for to, n in member.unclaimed.items() if pipeline.leads(to, join))
    queued += sum(inner not in here and pipeline.leads(inner, join) for inner in member.lease.opens)
    return sum(left for left, _ in found) + queued, sum(size for _, size in found) + queued
