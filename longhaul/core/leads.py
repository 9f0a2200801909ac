"""What a row knows of the jobs that lead to its own, and of what may follow it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from longhaul.core.descent import Group
from longhaul.core.lease import Lease
from longhaul.core.settings import RuntimeSettings, Stage

Emitted = Mapping[str, Sequence[Mapping[str, Any]]]
"""The requests that a job emitted, by stage: a body's fields without `job_id` and `lineage`.

A stage with an empty list was named on purpose: the job emitted none for it.
"""


def groups_of(lease: Lease) -> tuple[Group, ...]:
    """The groups that a job is in, outermost first; what it emits is in one more."""
    return lease.lineage.groups if lease.lineage else ()


def has_joins(lease: Lease) -> bool:
    """Whether a join belongs to the run, or to a job that it descends from."""
    return bool(lease.opens) or any(group.opens for group in groups_of(lease))


def with_next(lease: Lease, settings: RuntimeSettings) -> Lease:
    """The row with the stages to which a success leads; as it is, if its own was taken out.

    They are kept, because what was counted at a join must be what is sent: a deploy may come in
    between.
    """
    stage = settings.stage_or_removed(lease.stage)
    if stage.is_removed:
        return lease
    return replace(lease, leads_to=plain_next(stage, settings))


def with_emission(lease: Lease, stage: Stage) -> Lease:
    """The row of an attempt that may emit to what follows its stage now.

    What an attempt before it could emit to stays: its code may have been deployed later than ours.
    """
    before = lease.may_emit_to or ()
    return replace(lease, may_emit_to=tuple(dict.fromkeys((*before, *stage.next))))


def plain_next(stage: Stage, settings: RuntimeSettings) -> tuple[str, ...]:
    return tuple(name for name in stage.next if not settings.stage(name).join)
