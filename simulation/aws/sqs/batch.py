"""Batch calls: up to ten entries, each of which succeeds or fails alone."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from simulation.aws.service import Answer, RefusedError

MAX_ENTRIES = 10

_PREFIX = "AWS.SimpleQueueService."
_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")

Entry = Mapping[str, Any]


class EntryFault(NamedTuple):
    """Why one entry of a batch fails."""

    code: str
    message: str = ""
    sender_fault: bool = False


Faults = Callable[[str, Entry], EntryFault | None]
"""By the operation on one entry, such as `SendMessage`."""


def run(
    operation: str, entries: Sequence[Entry], faults: Faults, do: Callable[[Entry], Answer]
) -> Answer:
    """The answer of a batch call; as in SQS's JSON, it has no empty list."""
    _check(entries)
    done, failed = [], []
    for entry in entries:
        fault = faults(operation, entry)
        if fault is None:
            try:
                done.append({"Id": entry["Id"], **do(entry)})
            except RefusedError as refused:
                fault = EntryFault(refused.code, refused.message, sender_fault=True)
        if fault is not None:
            about = {
                "SenderFault": fault.sender_fault,
                "Code": fault.code,
                "Message": fault.message,
            }
            failed.append({"Id": entry["Id"], **about})
    return {name: found for name, found in (("Successful", done), ("Failed", failed)) if found}


def _check(entries: Sequence[Entry]) -> None:
    ids = [entry["Id"] for entry in entries]
    if not ids:
        raise RefusedError(
            f"{_PREFIX}EmptyBatchRequest", "There should be at least one entry in the request."
        )
    if len(ids) > MAX_ENTRIES:
        raise RefusedError(
            f"{_PREFIX}TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are {MAX_ENTRIES}. You have sent {len(ids)}.",
        )
    if len(set(ids)) < len(ids):
        raise RefusedError(
            f"{_PREFIX}BatchEntryIdsNotDistinct", "Two or more batch entries have the same Id."
        )
    if not all(_ID.fullmatch(each) for each in ids):
        raise RefusedError(
            f"{_PREFIX}InvalidBatchEntryId",
            "A batch entry id can only contain alphanumeric characters, hyphens and underscores."
            " It can be at most 80 letters long.",
        )
