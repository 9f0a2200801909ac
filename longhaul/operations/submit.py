"""Job requests: read from text, checked and named, and sent by the thousand.

A request without a `job_id` gets one in its body. If a response is lost and it is sent twice, the
second is then a duplicate and does no harm.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from threading import Event
from typing import Any, Final, NamedTuple

from longhaul.core.errors import InvalidRequestError
from longhaul.core.message import Message, in_batches, size_problem
from longhaul.core.policy import parse_request
from longhaul.core.ports import Clock, JobQueue
from longhaul.core.request import JobRequest
from longhaul.core.settings import RuntimeSettings, Stage

_TRIES: Final = 5
_BACK_OFF_S: Final = 0.5
# SQS takes some twenty milliseconds for a batch of ten. Eight batches at a time send thousands in a
# second or two, within the ten connections of one client.
_AT_ONCE: Final = 8
_MAX_NAME: Final = 64  # of the 128 characters of a job id
_GROUP: Final = re.compile(r"[!-~]{1,128}")  # what SQS takes as a MessageGroupId


WHOLE: Final = ""
"""The position of a request that is all of the input."""


@dataclass(frozen=True)
class Document:
    """One JSON object of an input. `position` says where it stands there, such as `line 3`."""

    position: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Submission:
    """A valid request, as it is sent."""

    position: str
    job_id: str
    body: str
    request: JobRequest


@dataclass(frozen=True)
class Problem:
    position: str
    text: str

    def __str__(self) -> str:
        return f"{self.position}: {self.text}" if self.position else self.text


def documents(text: str) -> tuple[list[Document], list[Problem]]:
    """The JSON objects in a text: one, an array of them, or one a line."""
    # Not `splitlines`: that also splits at characters that JSON text may hold, such as U+2028.
    lines = [(f"line {n}", line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        why = "the input is empty: one JSON object, an array of them, or one a line"
        return [], [Problem(WHOLE, why)]
    if len(lines) > 1 and not isinstance(_value(*lines[0]), Problem):
        entries = [(position, _value(position, line)) for position, line in lines]
    else:
        whole = _value(WHOLE, text)
        entries = [(WHOLE, whole)]
        if isinstance(whole, list):
            entries = [(f"entry {n}", each) for n, each in enumerate(whole, 1)]
    found = [_document(*each) for each in entries]
    return [each for each in found if isinstance(each, Document)], [
        each for each in found if isinstance(each, Problem)
    ]


def submissions(
    documents: Iterable[Document],
    settings: RuntimeSettings,
    stage: Stage,
    new_id: Callable[[str], str],
    *,
    is_named: bool = True,
) -> tuple[list[Submission], list[Problem]]:
    """The requests that can be sent, and every problem of the others.

    Args:
        documents: the objects as they were read.
        settings: what the deployment allows.
        stage: where they go.
        new_id: makes a job id for a request of that job that has none.
        is_named: whether the sender has named the stage. Else it gets no job that another expects,
            and none beside its own: what follows it would run for nothing.
    """
    good: list[Submission] = []
    problems: list[Problem] = []
    by_id: dict[str, Submission] = {}
    for document in documents:
        try:
            each = _submission(document, settings, stage, new_id)
            if not is_named:
                _check_expected(each.request.job, settings, stage)
        except InvalidRequestError as error:
            problems += [Problem(document.position, text) for text in error.problems]
            continue
        first = by_id.setdefault(each.job_id, each)
        if problem := size_problem(Message(each.body, {})):
            problems.append(Problem(each.position, problem))
        elif first.request.fingerprint() != each.request.fingerprint():
            problems.append(
                Problem(
                    each.position,
                    f"job_id {each.job_id!r} belongs to a different request at {first.position}",
                )
            )
        else:
            good.append(each)
    return good, problems


def new_ids(now: datetime, rng: Random) -> Callable[[str], str]:
    """Makes ids of the requests of one submission: `sql-20260131-120000-9f86d081884c`."""

    def new_id(job: str) -> str:
        # A file may have a name that is long, or has what no id may have.
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", job)[:_MAX_NAME]
        return f"{name}-{now:%Y%m%d-%H%M%S}-{rng.getrandbits(48):012x}".lstrip("-")

    return new_id


def group_problem(group: str) -> str | None:
    """Why SQS would not take this as a message's group, in a sentence; None when it would."""
    if _GROUP.fullmatch(group):
        return None
    return f"{group!r}: up to 128 letters, digits and punctuation, without blanks"


def _submission(
    document: Document, settings: RuntimeSettings, stage: Stage, new_id: Callable[[str], str]
) -> Submission:
    body = json.dumps(document.fields)
    request = parse_request(body, settings, stage)
    if request.job_id is not None:
        return Submission(document.position, request.job_id, body, request)
    # A job may be the path of code that comes with the request: take the name of its file.
    job = str(request.job or stage.job).rpartition("/")[2].removesuffix(".py")
    job_id = new_id(job)
    return Submission(
        document.position, job_id, json.dumps({**document.fields, "job_id": job_id}), request
    )


def _check_expected(job: str | None, settings: RuntimeSettings, stage: Stage) -> None:
    """Raises InvalidRequestError unless the job is one for the stage that no one has named."""
    expecting = [each.name for each in settings.stages if each.job == job and not each.retired]
    is_open = stage.job is None and not (stage.next and expecting)
    if job is None or job == stage.job or is_open:
        return
    names = expecting or [each.name for each in settings.stages if not each.retired]
    problem = (
        f"stage {stage.name} would get it, which does not expect the job {job!r}: name the stage"
        f" (--stage, or stage=…): {' or '.join(names)}"
    )
    raise InvalidRequestError([problem])


def _value(position: str, text: str) -> Any:  # noqa: ANN401 - what JSON holds
    """What the text holds, or the Problem that it is no JSON."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = position or f"line {error.lineno}"
        return Problem(where, f"is not valid JSON at column {error.colno}: {error.msg}")
    except (RecursionError, ValueError) as error:  # a number has too many digits
        return Problem(position, f"cannot be read: {error}")


def _document(position: str, value: object) -> Document | Problem:
    if isinstance(value, Problem):
        return value
    if not isinstance(value, dict):
        return Problem(position, 'is no JSON object: a request looks like {"job": …, "output": …}')
    return Document(position, value)


class Sent(NamedTuple):
    submission: Submission
    message_id: str


class Unsent(NamedTuple):
    submission: Submission
    reason: str


@dataclass
class SubmitReport:
    """Every submission is in exactly one of the two lists. `stopped_by` ended it early."""

    sent: list[Sent] = field(default_factory=list)
    unsent: list[Unsent] = field(default_factory=list)
    stopped_by: BaseException | None = None


@dataclass(frozen=True)
class Submitter:
    clock: Clock
    rng: Random
    queue: JobQueue

    def submit(
        self,
        queue_url: str,
        submissions: Sequence[Submission],
        group_id: str | None = None,
    ) -> SubmitReport:
        """Send them in batches, several at a time, and retry what SQS refuses for the moment.

        An interrupt or an error stops it after the batches under way. The requests in `unsent` can
        be submitted again as they are: each has its job id, so that one that did arrive makes the
        second a duplicate.

        Args:
            queue_url: of the stage's jobs queue.
            submissions: what to send.
            group_id: the tenant whose messages they are, for SQS's fair queues.
        """
        report, stop = SubmitReport(), Event()
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="submit") as pool:
            batches = in_batches(submissions, lambda each: len(each.body.encode()))
            futures = [pool.submit(self._send, queue_url, each, group_id, stop) for each in batches]
            while not all(each.done() for each in futures):
                try:
                    wait(futures)
                except KeyboardInterrupt as interrupt:
                    # A second one changes nothing: the report needs the calls under way, which
                    # take seconds.
                    stop.set()
                    report.stopped_by = interrupt
        for future in futures:
            part = future.result()
            report.sent += part.sent
            report.unsent += part.unsent
            report.stopped_by = report.stopped_by or part.stopped_by
        return report

    def _send(
        self, queue_url: str, batch: list[Submission], group_id: str | None, stop: Event
    ) -> SubmitReport:
        part, attempt = SubmitReport(), 0
        unanswered = [Unsent(each, "not sent: stopped before its turn") for each in batch]
        try:
            while unanswered and attempt < _TRIES and not stop.is_set():
                if attempt:
                    self.clock.sleep(self.rng.uniform(0, _BACK_OFF_S * 2**attempt))
                attempt += 1
                answers = self.queue.send_batch(
                    queue_url, [Message(each.body, {}, group_id) for each, _ in unanswered]
                )
                again = []
                for (each, _), answer in zip(unanswered, answers, strict=True):
                    if answer.message_id is not None:
                        part.sent.append(Sent(each, answer.message_id))
                    elif answer.again:
                        why = f"refused {attempt} times, the last time: {answer.reason}"
                        again.append(Unsent(each, why))
                    else:
                        part.unsent.append(Unsent(each, answer.reason))
                unanswered = again
        except Exception as error:  # noqa: BLE001 - reported with what was sent; the caller raises it
            stop.set()
            part.stopped_by = error
        part.unsent += unanswered
        return part
