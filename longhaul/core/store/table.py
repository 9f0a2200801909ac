"""The schema of the leases table, said once: the stack builds its table from this.

Items of one job share its key: the lease itself, and its attempts that have ended. The slots of a
stage and the arrivals at a join have keys of their own.
"""

from dataclasses import dataclass

PARTITION_KEY = "key"
SORT_KEY = "item"
TTL = "ttl"


@dataclass(frozen=True)
class Index:
    """A global secondary index of keys only, named after its partition key.

    Sparse: an item without the attribute is not in it. The partition key is a string, the sort key
    a number.
    """

    name: str
    sort_key: str | None = None


OPEN = Index("open")
"""Rows with something left to do. A progress write never touches it."""

ENDED = Index("ended", sort_key="settled_at")
"""What ended lately, by its end. Written once, when a job ends."""

INDEXES = (OPEN, ENDED)

NAMED_BY_TASKS = (
    *(PARTITION_KEY, SORT_KEY, "state", "run", "attempt", "cancel_requested_at"),
    *("task_arn", "started_at", "progress", "progress_at", "reported_at"),
    *("result", "output", "published_at"),
    *("saved_ref", "saved_at", "saved_bytes"),
)
"""Attributes that an attempt's writes name, to set or to compare: its role may name no others."""
