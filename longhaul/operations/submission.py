"""Job requests before they are sent: read from text, checked, named and put into batches. Pure.

A request without a `job_id` gets one in its body. If a response is lost and it is sent twice, the
second is then a duplicate and does no harm.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, Final, NamedTuple

from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.message import Message, in_batches, size_problem
from longhaul.domain.policy import check_start, parse_request
from longhaul.domain.request import JobRequest
from longhaul.settings import RuntimeSettings, Stage

_MAX_NAME: Final = 64  # of the 128 characters of a job id
_GROUP: Final = re.compile(r"[!-~]{1,128}")  # what SQS takes as a MessageGroupId


class Position(NamedTuple):
    """Where a request stands in an input: in words, such as `line 3`, and its number there."""

    text: str
    number: int

    def __str__(self) -> str:
        return self.text


WHOLE: Final = Position("", 0)
"""Of a request that is all of the input."""


@dataclass(frozen=True)
class Document:
    """One JSON object of an input."""

    position: Position
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Submission:
    """A valid request, as it is sent."""

    position: Position
    job_id: str
    body: str
    request: JobRequest


@dataclass(frozen=True)
class Problem:
    position: Position
    text: str

    def __str__(self) -> str:
        return self.text if self.position is WHOLE else f"{self.position}: {self.text}"


def documents(text: str) -> tuple[list[Document], list[Problem]]:
    """The JSON objects in a text: one, an array of them, or one a line."""
    # Not `splitlines`: that also splits at characters that JSON text may hold, such as U+2028.
    lines = [
        (Position(f"line {n}", n), line)
        for n, line in enumerate(text.split("\n"), 1)
        if line.strip()
    ]
    if not lines:
        return [], [
            Problem(WHOLE, "the input is empty: one JSON object, an array of them, or one a line")
        ]
    if _is_json(lines[0][1]):
        entries = [_parsed(position, line) for position, line in lines]
    else:  # a document over several lines
        whole = _parsed(WHOLE, text)
        if isinstance(whole, Document | Problem):
            entries = [whole]
        else:
            entries = [
                _object(Position(f"entry {n}", n), value) for n, value in enumerate(whole, 1)
            ]
    flat: list[Document | Problem] = []
    for each in entries:
        flat += (
            [each]
            if isinstance(each, Document | Problem)
            else [_object(Position(f"entry {n}", n), v) for n, v in enumerate(each, 1)]
        )
    return [each for each in flat if isinstance(each, Document)], [
        each for each in flat if isinstance(each, Problem)
    ]


def submissions(
    documents: Iterable[Document],
    settings: RuntimeSettings,
    stage: Stage,
    max_bytes: int,
    new_id: Callable[[str], str],
    now: datetime,
    *,
    is_named: bool = True,
) -> tuple[list[Submission], list[Problem]]:
    """The requests that can be sent, and every problem of the others.

    Args:
        documents: the objects as they were read.
        settings: what the deployment allows.
        stage: where they go.
        max_bytes: the queue's limit for one message.
        new_id: makes a job id for a request of that job that has none.
        now: in aware UTC.
        is_named: whether the sender has named the stage. Else it gets no job that another expects,
            and none beside its own: what follows it would run for nothing.
    """
    good: list[Submission] = []
    problems: list[Problem] = []
    by_id: dict[str, Submission] = {}
    for document in documents:
        try:
            each = _submission(document, settings, stage, new_id)
            check_start(each.request, now)
            if not is_named:
                _check_expected(each.request.job, settings, stage)
        except InvalidRequestError as error:
            problems += [Problem(document.position, text) for text in error.problems]
            continue
        first = by_id.setdefault(each.job_id, each)
        if problem := size_problem(Message(each.body, {}), max_bytes):
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


def new_ids(now: datetime, rng: Random, count: int) -> Callable[[str], str]:
    """Makes ids for `count` requests of one submission: `sql-20260131-120000-9f86d081884c-07`."""
    prefix = f"{now:%Y%m%d-%H%M%S}-{rng.getrandbits(48):012x}"
    numbers = iter(range(1, count + 1))

    def new_id(job: str) -> str:
        number = f"-{next(numbers):0{len(str(count))}}" if count > 1 else ""
        # A file may have a name that is long, or has what no id may have.
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", job)[:_MAX_NAME]
        return f"{name}-{prefix}{number}".lstrip("-")

    return new_id


def group_problem(group: str) -> str | None:
    """Why SQS would not take this as a message's group, in a sentence; None when it would."""
    if _GROUP.fullmatch(group):
        return None
    return f"{group!r}: up to 128 letters, digits and punctuation, without blanks"


def batches(submissions: Sequence[Submission]) -> Iterator[list[Submission]]:
    """In the given order; each batch is at most what SQS takes in one call."""
    return in_batches(submissions, lambda each: len(each.body.encode()))


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
    """Raises InvalidRequestError unless the job is one for the stage that nobody has named."""
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


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return False
    except ValueError:  # a number with too many digits: JSON all the same
        return True
    return True


def _parsed(position: Position, text: str) -> Document | Problem | list[Any]:
    try:
        value = json.loads(text)
    except RecursionError:
        return Problem(position, "is nested too deeply")
    except json.JSONDecodeError as error:
        line = Position(f"line {error.lineno}", error.lineno) if position is WHOLE else position
        return Problem(line, f"is not valid JSON at column {error.colno}: {error.msg}")
    except ValueError:
        return Problem(position, "has a number with more digits than can be read")
    return value if isinstance(value, list) else _object(position, value)


def _object(position: Position, value: object) -> Document | Problem:
    if not isinstance(value, dict):
        return Problem(position, 'is no JSON object: a request looks like {"job": …, "output": …}')
    return Document(position, value)
