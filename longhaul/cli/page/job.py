"""The page of a job (its row, attempts, request, end of its log, tree), and of a backfill."""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from longhaul.cli.display.text import log_line
from longhaul.cli.insight.measures import Measure, measures
from longhaul.cli.insight.tree_graph import StageBox, columns
from longhaul.cli.page.histories import Histories
from longhaul.cli.page.successes import Successes
from longhaul.cli.target import Target
from longhaul.domain.backfill import Backfill, backfill_of
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.history import AttemptRecord
from longhaul.domain.lease import Lease, State, job_key
from longhaul.domain.request import JobRequest, read_request
from longhaul.domain.waiting import Waits
from longhaul.operations.stage_waits import waits_in
from longhaul.trees import TreeJob

LINES = 200
"""The most lines of the log that are shown. `longhaul logs` has all of them."""

MAX_VALUES = 1_000
"""The most values of a backfill that are shown."""

_MAX_REQUEST = 65_536  # characters


@dataclass(frozen=True)
class JobView:
    """The page at one moment. `body` and `log` are None where there is none."""

    now: datetime
    row: Lease
    attempts: Sequence[AttemptRecord]
    body: str | None  # of its request, as it was sent
    log: "Log | None"
    tree: TreeJob | None  # that of its root; None of a job that is alone
    graph: Sequence[Sequence[StageBox]]
    alike: Sequence[Lease]  # of the same job in the same stage: those that succeeded last
    waits: Waits | None

    @property
    def backfill(self) -> str | None:
        return backfill_of(self.row)

    @property
    def asked(self) -> JobRequest | None:
        """The request in its fields, where it was read."""
        try:
            return read_request(self.body) if self.body else None
        except InvalidRequestError:
            return None

    @property
    def measures(self) -> Sequence[Measure]:
        """What these took, wrote and measured."""
        return measures(self.alike)

    @property
    def request(self) -> str | None:
        """The request to be read by people."""
        return _pretty(self.body) if self.body else None


@dataclass(frozen=True)
class Log:
    attempt: int
    lines: Sequence[str]


@dataclass(frozen=True)
class BackfillView:
    """A backfill at one moment."""

    now: datetime
    backfill: Backfill
    tree: TreeJob
    graph: Sequence[Sequence[StageBox]]


class JobReader:
    """Reads the page of a job, with the log of one attempt (by default the latest).

    `find`: only the lines of the log that have this text, in any case.
    """

    def __init__(
        self, target: Target, stage: str, job_id: str, attempt: int | None, find: str = ""
    ) -> None:
        self._target, self._attempt, self._find = target, attempt, find.lower()
        self._key = job_key(stage, job_id)
        self._histories = Histories(target.parts.leases)
        self._alike = Successes(target, stage)
        self._succeeded: Mapping[str, Lease] = {}
        self._request: tuple[str, str | None] | None = None  # its reference, then itself

    def read(self) -> JobView | BackfillView | None:
        """Calls AWS: docs/operations.md has the calls. None: nothing is known of such a job.

        A name that no job has may be a backfill's.
        """
        parts = self._target.parts
        row = parts.leases.load(self._key)
        if row is None or row.is_open_mark:
            found = parts.backfills.find_backfills([self._key]).get(self._key)
            if found is not None:
                return self._backfill(found)
        if row is None:
            return None
        attempts = self._histories.of([row]).get(row.key, ())
        tree = self._tree(row)
        return JobView(
            now=parts.clock.now(),
            row=row,
            attempts=attempts,
            body=self._request_of(row),
            log=self._log(attempts),
            tree=tree,
            graph=columns(tree, self._target.settings.stages) if tree else (),
            alike=self._alike.of(row),
            waits=waits_in(self._target, row, parts.clock.now()),
        )

    def _backfill(self, backfill: Backfill) -> BackfillView:
        tree = self._target.trees.walk_backfill(backfill, self._succeeded)
        self._keep_successes(tree)
        graph = columns(tree, self._target.settings.stages)
        return BackfillView(self._target.parts.clock.now(), backfill, tree, graph)

    def _tree(self, row: Lease) -> TreeJob | None:
        """The tree of the job's root, or of the job where that has expired; None if it is alone."""
        root = row if row.root == row.key else self._target.parts.leases.load(row.root) or row
        tree = self._target.trees.walk(root, self._succeeded)
        self._keep_successes(tree)
        return tree if tree.children or root.key != row.key else None

    def _keep_successes(self, tree: TreeJob) -> None:
        rows = (job.lease for job in tree.all())
        self._succeeded = {
            each.key: each
            for each in rows
            if each is not None and each.is_finished and each.state is State.SUCCEEDED
        }

    def _request_of(self, row: Lease) -> str | None:
        if row.is_mark or not row.request_ref:
            return None
        if self._request is None or self._request[0] != row.request_ref:
            self._request = (row.request_ref, self._read_request(row.request_ref))
        return self._request[1]

    def _read_request(self, ref: str) -> str | None:
        kept = self._target.parts.requests.get_stored(ref)
        return kept.body if kept else None  # the bucket's lifecycle has removed it

    def _log(self, attempts: Sequence[AttemptRecord]) -> Log | None:
        wanted = [each for each in attempts if self._attempt in (None, each.attempt.number)]
        stream = self._target.logs.stream(wanted[-1]) if wanted else None
        if stream is None:
            return None
        logs = self._target.logs
        events = logs.lines(stream) if self._find else logs.tail(stream, LINES)
        lines = (line for line in map(log_line, events) if self._find in line.lower())
        return Log(wanted[-1].attempt.number, [*deque(lines, maxlen=LINES)])


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
