"""The page of a job (its row, attempts, request, end of its log, run), and of a backfill."""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from longhaul.cli.display.job import page_of
from longhaul.cli.display.text import log_line
from longhaul.cli.insight.measures import measures
from longhaul.cli.insight.tree_graph import columns
from longhaul.cli.target import Target
from longhaul.domain.backfill import Backfill, backfill_of
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.history import AttemptRecord
from longhaul.domain.lease import Lease, State
from longhaul.domain.request import JobRequest, read_request
from longhaul.operations.find import Ages
from longhaul.operations.stage_waits import waits_in
from longhaul.trees import TreeJob

LINES: Final = 200
"""The most lines of the log that are shown. `longhaul logs` has all of them."""

MAX_ALIKE: Final = 50
"""The most successes of the same job that are drawn."""

LOOKED_AT: Final = 500
"""Successes of the stage among which they are looked for."""

_LOOK_EVERY: Final = timedelta(minutes=1)
_MAX_REQUEST = 65_536  # characters


def find(target: Target, key: str) -> Lease | Backfill | None:
    """The row of a job; a name that no job has may be a backfill's."""
    row = target.parts.leases.load(key)
    if row is not None and not row.is_open_mark:
        return row
    return target.parts.backfills.find_backfills([key]).get(key) or row


class JobReader:
    """Reads the page of a job, with the log of one attempt (by default the latest).

    `find`: only the lines of the log that have this text, in any case.
    """

    def __init__(self, target: Target, key: str, attempt: int | None, find: str = "") -> None:
        self._target, self._key, self._attempt = target, key, attempt
        self._find = find.lower()
        self._succeeded: Mapping[str, Lease] = {}
        self._alike: Sequence[Lease] = ()
        self._alike_at: datetime | None = None

    def read(self) -> Mapping[str, Any] | None:
        """What the template shows; calls AWS. None: nothing is known of such a job."""
        found = find(self._target, self._key)
        if found is None:
            return None
        tree = self._tree(found)
        values: dict[str, Any] = {
            "now": self._target.parts.clock.now(),
            "tree": tree,
            "graph": columns(tree, self._target.settings.stages) if tree else (),
        }
        values |= {"backfill": found} if isinstance(found, Backfill) else self._of(found)
        return values

    def _of(self, row: Lease) -> Mapping[str, Any]:
        target, now = self._target, self._target.parts.clock.now()
        attempts = target.parts.leases.history([row])[row.key]
        body, group = self._read_body(row), target.settings.job_log_group
        waits = waits_in(target, row, now)
        alike = self._look_alike(row, now)
        return {
            "row": row,
            "of_backfill": backfill_of(row),
            "facts": page_of(row, now, target.parts.executions, group, _asked(body), waits=waits),
            "attempts": attempts,
            "log": self._log(attempts),
            "request": _pretty(body) if body else None,
            "alike": alike,
            "measures": measures(alike),
        }

    def _tree(self, found: Lease | Backfill) -> TreeJob | None:
        """The tree of the job's root, or of the job where that has expired; None if it is alone."""
        target = self._target
        if isinstance(found, Backfill):
            tree = target.trees.walk_backfill(found, self._succeeded)
        else:
            is_root = found.root == found.key
            root = found if is_root else target.parts.leases.load(found.root) or found
            tree = target.trees.walk(root, self._succeeded)
        rows = (job.lease for job in tree.all())
        self._succeeded = {
            each.key: each
            for each in rows
            if each is not None and each.is_finished and each.state is State.SUCCEEDED
        }
        return tree if tree.children or tree.key != self._key else None

    def _read_body(self, row: Lease) -> str | None:
        """The request as it was sent; None where none is kept."""
        if row.is_mark or not row.request_ref:
            return None
        kept = self._target.parts.requests.get_stored(row.request_ref)
        return kept.body if kept else None  # the bucket's lifecycle has removed it

    def _look_alike(self, row: Lease, now: datetime) -> Sequence[Lease]:
        """The last successes of the same name in the same stage, the latest first."""
        if row.is_mark or row.input.job is None:
            return ()
        if self._alike_at is None or now - self._alike_at >= _LOOK_EVERY:
            ended = self._target.jobs.ended([row.stage], [State.SUCCEEDED], Ages())
            found = (each for each in islice(ended, LOOKED_AT) if each.input.job == row.input.job)
            self._alike, self._alike_at = [*islice(found, MAX_ALIKE)], now
        return self._alike

    def _log(self, attempts: Sequence[AttemptRecord]) -> Mapping[str, Any] | None:
        wanted = [each for each in attempts if self._attempt in (None, each.attempt.number)]
        logs = self._target.logs
        stream = logs.stream(wanted[-1]) if wanted else None
        if stream is None:
            return None
        events = logs.lines(stream) if self._find else logs.tail(stream, LINES)
        lines = (line for line in map(log_line, events) if self._find in line.lower())
        return {"attempt": wanted[-1].attempt.number, "lines": [*deque(lines, maxlen=LINES)]}


def _asked(body: str | None) -> JobRequest | None:
    """The request in its fields, where it can be read."""
    try:
        return read_request(body) if body else None
    except InvalidRequestError:
        return None


def _pretty(body: str) -> str:
    try:
        text = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = body
    return (
        text
        if len(text) <= _MAX_REQUEST
        else f"{text[:_MAX_REQUEST]}\n… and {len(text) - _MAX_REQUEST} more characters"
    )
