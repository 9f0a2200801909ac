"""The page of a job: its row, attempts, request, the end of its log, and its family."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from botocore.exceptions import ClientError

from longhaul.adapters.errors import code_of
from longhaul.cli.display.text import log_line
from longhaul.cli.page.histories import Histories
from longhaul.cli.target import Target
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.history import AttemptRecord
from longhaul.domain.lease import Lease, job_key
from longhaul.domain.request import JobRequest, read_request

LINES = 200
"""The most lines of the log that are shown. `longhaul logs` has all of them."""

MAX_FAMILY = 200
_MAX_REQUEST = 65_536  # characters


@dataclass(frozen=True)
class JobView:
    """The page at one moment. `body` and `log` are None where there is none."""

    now: datetime
    row: Lease
    attempts: Sequence[AttemptRecord]
    body: str | None  # of its request, as it was sent
    log: "Log | None"
    family: Sequence[Lease]
    more_family: bool

    @property
    def asked(self) -> JobRequest | None:
        """The request in its fields, where it was read."""
        try:
            return read_request(self.body) if self.body else None
        except InvalidRequestError:
            return None

    @property
    def request(self) -> str | None:
        """The request to be read by people."""
        return _pretty(self.body) if self.body else None


@dataclass(frozen=True)
class Log:
    attempt: int
    lines: Sequence[str]


class JobReader:
    """Reads the page of a job, with the log of one attempt (by default the latest)."""

    def __init__(self, target: Target, stage: str, job_id: str, attempt: int | None) -> None:
        self._target, self._attempt = target, attempt
        self._key = job_key(stage, job_id)
        self._histories = Histories(target.parts.leases)
        self._request: tuple[str, str | None] | None = None  # its reference, then itself

    def read(self) -> JobView | None:
        """Calls AWS: docs/console.md has the calls. None: nothing is known of the job."""
        parts = self._target.parts
        row = parts.leases.load(self._key)
        if row is None:
            return None
        attempts = self._histories.of([row]).get(row.key, ())
        others = list(islice(self._target.jobs.related(row), MAX_FAMILY))
        shown = [row, *others[: MAX_FAMILY - 1]] if others else []
        return JobView(
            now=parts.clock.now(),
            row=row,
            attempts=attempts,
            body=self._request_of(row),
            log=self._log(attempts),
            family=_ordered(shown),
            more_family=len(others) == MAX_FAMILY,
        )

    def _request_of(self, row: Lease) -> str | None:
        if row.is_mark or not row.request_ref:
            return None
        if self._request is None or self._request[0] != row.request_ref:
            self._request = (row.request_ref, self._read_request(row.request_ref))
        return self._request[1]

    def _read_request(self, ref: str) -> str | None:
        try:
            return self._target.parts.requests.get(ref).body
        except ClientError as error:
            if code_of(error) != "NoSuchKey":
                raise
            return None  # the bucket's lifecycle has removed it

    def _log(self, attempts: Sequence[AttemptRecord]) -> Log | None:
        wanted = [each for each in attempts if self._attempt in (None, each.attempt.number)]
        stream = self._target.logs.stream(wanted[-1]) if wanted else None
        if stream is None:
            return None
        lines = [log_line(event) for event in self._target.logs.tail(stream, LINES)]
        return Log(wanted[-1].attempt.number, lines)


def _ordered(family: Sequence[Lease]) -> list[Lease]:
    """The root first, then stage by stage as they began, the jobs of each by their numbers."""
    begun: dict[str, int] = {}
    for row in family:
        begun[row.stage] = min(row.run, begun.get(row.stage, row.run))

    def place(row: Lease) -> tuple[bool, int, list[int], int, str]:
        numbers = [group.n for group in row.lineage.groups] if row.lineage else []
        return row.lineage is not None, begun[row.stage], numbers, row.run, row.key

    return sorted(family, key=place)


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
