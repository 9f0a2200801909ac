"""Find jobs: one by its id, the unfinished ones, or those that ended lately; and what was asked."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

from botocore.exceptions import ClientError

from longhaul.core.aws_errors import code_of
from longhaul.core.errors import InvalidRequestError, UnreadableRowError
from longhaul.core.lease import Lease, OpenKind, State, job_key
from longhaul.core.ports import Clock, Leases, Requests
from longhaul.core.request import read_request
from longhaul.operations.view import request_record

_PAGE = 100
LONG_AGO: Final = datetime.fromtimestamp(0, UTC)
OPEN_KINDS: tuple[OpenKind, ...] = ("RUNNING", "RELEASED", "OWED")


@dataclass(frozen=True)
class Ages:
    """A range of ages; None leaves that end open.

    The age of an unfinished job is that of its run; of an ended one, the time since its end.
    """

    older_than: timedelta | None = None
    newer_than: timedelta | None = None

    def include(self, lease: Lease, now: datetime) -> bool:
        ended_at = lease.settled_at if lease.state.is_terminal else None
        age = now - (ended_at or lease.run_began)
        return (self.older_than is None or age >= self.older_than) and (
            self.newer_than is None or age <= self.newer_than
        )


@dataclass(frozen=True)
class Jobs:
    clock: Clock
    leases: Leases

    def find(self, stages: Sequence[str], job_id: str) -> list[Lease]:
        """The rows of that job id in these stages; open cancel marks where there is nothing else.

        An open mark does not say where the job is.

        Raises:
            UnreadableRowError: there is one that cannot be read.
        """
        found = self.leases.load_many(job_key(stage, job_id) for stage in stages)
        for key in found.unreadable:
            raise UnreadableRowError(key)
        rows = list(found.values())
        return [row for row in rows if not row.is_open_mark] or rows

    def unfinished(self, stages: Sequence[str]) -> list[Lease]:
        """Jobs that run, wait for their next attempt, or have ended and still owe something.

        Oldest runs first. There are no more of them than jobs in flight.
        """
        rows = [
            row for stage in stages for kind in OPEN_KINDS for row in self.open_of_kind(stage, kind)
        ]
        return sorted(rows, key=lambda row: (row.state.is_terminal, row.run, row.key))

    def open_of_kind(self, stage: str, kind: OpenKind) -> Iterator[Lease]:
        """The unfinished jobs of a stage of one kind, in no order, read lazily."""
        keys = self.leases.open_keys(stage, kind)
        while page := list(islice(keys, _PAGE)):
            # The index lags a little; the row is the truth.
            rows = self.leases.load_many(page).values()
            yield from (row for row in rows if row.open_kind == kind)

    def ended(
        self,
        stages: Sequence[str],
        states: Sequence[State],
        ages: Ages,
        known: Mapping[str, Lease] | None = None,
    ) -> Iterator[Lease]:
        """Jobs that have ended and owe nothing, the latest end first, read lazily.

        Rows in `known`, by key, are not read again where they have the end that the index has.
        """
        now, seen = self.clock.now(), known or {}
        until = now - ages.older_than if ages.older_than else now
        since = now - ages.newer_than if ages.newer_than else LONG_AGO
        ends = heapq.merge(
            *(
                # Of what is known the keys alone are read: many in a call.
                self.leases.ended_keys(
                    stage, state, until, since, 1_000 if known is not None else _PAGE
                )
                for stage in stages
                for state in states
                if state.is_terminal
            ),
            reverse=True,
        )
        while page := list(islice(ends, _PAGE)):
            kept = {key: seen[key] for at, key in page if _has_ended_at(seen.get(key), at)}
            rows = kept | dict(self.leases.load_many(key for _, key in page if key not in kept))
            for at, key in page:
                row = rows.get(key)
                if row is not None and row.state in states and _has_ended_at(row, at):
                    yield row


def _has_ended_at(row: Lease | None, at: datetime) -> bool:
    """Whether a row still has the end that the index has: a new run may have begun since."""
    return row is not None and row.is_finished and row.settled_at == at


def asked_of(lease: Lease, requests: Requests) -> dict[str, Any] | None:
    """The request of a row's run as it was claimed, as `request_record` has it.

    None where there is none: a cancel came first, the bucket's lifecycle has removed it, or this
    caller may not read it.
    """
    if lease.is_mark or not lease.request_ref:
        return None
    try:
        return request_record(read_request(requests.get(lease.request_ref).body))
    except InvalidRequestError:
        return None  # of another version
    except ClientError as error:
        if code_of(error) not in ("NoSuchKey", "AccessDenied"):
            raise
        return None
