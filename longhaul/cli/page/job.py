"""The page of a job (its row, attempts, request, end of its log, run), and of a backfill."""

import json
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from longhaul.cli.display.job import page_of
from longhaul.cli.display.text import log_line
from longhaul.cli.target import Target
from longhaul.operations.find import asked_of
from longhaul.operations.look import status_of
from longhaul.operations.named import Work, find_at
from longhaul.operations.runs import columns, run_of
from longhaul.operations.timeline import Lane, lanes_of
from longhaul.operations.tree import TreeJob, statuses, uses_for

LINES: Final = 200
"""The most lines of the log that are shown. `longhaul logs` has all of them."""

_MAX_REQUEST: Final = 65_536  # characters


class JobReader:
    """Reads the page of a job, with the log of one attempt (by default the latest).

    `find`: only the lines of the log that have this text, in any case.
    """

    def __init__(self, target: Target, key: str, attempt: int | None, find: str = "") -> None:
        self._target, self._key, self._attempt = target, key, attempt
        self._find = find.lower()
        self._succeeded: Mapping[str, Any] = {}

    def read(self) -> Mapping[str, Any] | None:
        """What the template shows; calls AWS. None: nothing is known of such a job."""
        target, work = self._target, find_at(self._target, self._key)
        if work is None:
            return None
        now, tree = target.parts.clock.now(), self._tree(work)
        known = statuses(target, tree)
        values = {
            "now": now,
            "tree": tree if tree.children or tree.key != self._key else None,
            "graph": columns(tree, target.settings.stages),
            "known": known,
            "backfill": work.backfill,
        }
        row = work.row
        if row is None:
            return values
        (lane,) = lanes_of(target, [row])
        job = status_of(target, row, uses_for(target, work.tree(target, only=True)))
        asked = asked_of(row, target.parts.requests)
        request = json.dumps(asked, indent=2, ensure_ascii=False) if asked else ""
        return values | {
            "row": row,
            "job": job,
            "run": run_of(row),
            "facts": page_of(job, now, asked),
            "lane": lane,
            "log": self._log(lane),
            "request": request[:_MAX_REQUEST] + ("\n…" if len(request) > _MAX_REQUEST else ""),
        }

    def _tree(self, work: Work) -> TreeJob:
        """The tree of the job's root, or of the job where that has expired."""
        target, row = self._target, work.row
        root = target.parts.leases.load(row.root) if row and row.root != row.key else None
        top = Work(root.key, root) if root else work
        tree = top.tree(target, self._succeeded)
        rows = [job.lease for job in tree.all() if job.lease is not None]
        self._succeeded = {
            each.key: each for each in rows if each.is_finished and each.state == "SUCCEEDED"
        }
        return tree

    def _log(self, lane: Lane) -> Mapping[str, Any] | None:
        wanted = [each for each in lane.attempts if self._attempt in (None, each.attempt.number)]
        logs = self._target.logs
        stream = logs.stream(wanted[-1]) if wanted else None
        if stream is None:
            return None
        events = logs.lines(stream) if self._find else logs.tail(stream, LINES)
        lines = (line for line in map(log_line, events) if self._find in line.lower())
        return {"attempt": wanted[-1].attempt.number, "lines": [*deque(lines, maxlen=LINES)]}
