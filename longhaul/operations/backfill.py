"""One request for each value of a range: its jobs, which of them are left, and a few at a time.

The id of each job is made of the backfill's name and the value. So the same backfill can be started
again at any time: what has succeeded is passed over, what runs is waited for, the rest is sent.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

from longhaul.core.errors import InvalidRequestError
from longhaul.core.lease import Lease, State
from longhaul.core.places import is_table
from longhaul.core.ports import Clock
from longhaul.core.settings import Stage
from longhaul.operations.errors import BackfillCancelledError
from longhaul.operations.submit import Document, Problem, Submission, Submitter, Unsent
from longhaul.operations.wait import Awaited, Standing, Waiter
from longhaul.pipelines.backfill import Backfill, Backfills
from longhaul.pipelines.pipeline import Pipeline

MAX_VALUES: Final = 10_000
MAX_ITEM: Final = 390_000
"""Bytes of its values, each with one more: an item of DynamoDB has 400 KiB (409,600) at most."""

_TIME: Final = "0" * 13
_PERIOD_S: Final = 2.0
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_:-]{0,31}")
_IN_BRACES: Final = re.compile(
    r"\{\{(?P<literal>[A-Za-z_][^{},\n]*)\}\}|\{(?P<word>\s*[A-Za-z_][^{},\n]*)\}"
)
# Those of Python on every system, but for zones, which a period has not; `%-d` is without a zero.
_CODES: Final = re.compile(r"%(?:-?[dmHIMSjUWVy]|[aAbBcfFGpuwxXY%])")

_A_MONTH: Final = timedelta(days=32)
"""From the first day of one into the next."""

# Each form of a time: how it is read and written, and the step to the next one.
_FORMS: Final[tuple[tuple[re.Pattern[str], str, str, timedelta], ...]] = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d"), "%Y-%m-%dT%H", "", timedelta(hours=1)),
    (re.compile(r"\d{4}-\d\d-\d\d"), "%Y-%m-%d", "", timedelta(days=1)),
    (re.compile(r"\d{4}-W\d\d"), "%G-W%V", "-%u", timedelta(weeks=1)),
    (re.compile(r"\d{4}-\d\d"), "%Y-%m", "", _A_MONTH),
)


@dataclass(frozen=True)
class Value:
    """What takes the place of the name in a request; `time` where it is the begin of a period."""

    text: str
    time: datetime | None = None

    def fill(self, name: str, text: str) -> str:
        r"""The text with this value in the place of `{name}`, and of `{name:%Y/%m}`.

        `{{word}}` is the text `{word}`. Braces that do not begin with a letter stay as they are,
        and so do those with a comma or a line end: `\d{4}`, `*.{csv,parquet}`.

        Raises:
            InvalidRequestError: another name stands in braces, the value is no time and the text
                wants a part of one, or `strftime` has no such code.
        """

        def written(match: re.Match[str]) -> str:
            if match["literal"] is not None:
                return f"{{{match['literal']}}}"
            word, colon, form = match["word"].partition(":")
            if word != name:
                way_out = f"write {{{match[0]}}} for the text itself"
                raise InvalidRequestError([f"{match[0]}: the value is {{{name}}}; {way_out}"])
            return self._part(form, match[0]) if colon else self.text

        return _IN_BRACES.sub(written, text)

    def _part(self, form: str, where: str) -> str:
        if self.time is None:
            raise InvalidRequestError(
                [f"{where}: {self.text!r} is no time, which alone has such parts"]
            )
        left = _CODES.sub("", form)
        if left == form or "%" in left:
            raise InvalidRequestError(
                [f"{where}: a part of a time has codes of strftime, such as %Y/%m/%d or %H"]
            )
        return self.time.strftime(form)

    @property
    def id(self) -> str:
        """A part of a job id: the value, or a digest where that has other characters."""
        if _PLAIN.fullmatch(self.text):
            return self.text
        return hashlib.sha256(self.text.encode()).hexdigest()[:20]


def behind_opener(stage: Stage, stages: Sequence[Stage]) -> str | None:
    """Why no backfill can be sent to a stage, in words: its jobs would not start their join."""
    pipeline = Pipeline(stages)
    joins = pipeline.not_opened_from(stage.name)
    if not joins:
        return None
    opener = pipeline.opener(joins[0])
    return (
        f"stage {stage.name} is behind {opener}, and the join {joins[0]} starts for jobs of"
        f" {opener} alone: backfill {opener} (--stage {opener}), or run jobs of {stage.name} again"
        " in their place (longhaul rerun JOB)"
    )


class Over(NamedTuple):
    """The name of what changes from request to request, and its values."""

    name: str
    values: tuple[Value, ...]


def over(text: str, read: Callable[[str], str]) -> Over:
    """The values of `NAME=FROM..TO`, `NAME=A,B,C` or `NAME=@FILE`; each once, and no empty ones.

    From a time to a time, both included, by the step of their form: `2026-10-01T06` hours,
    `2026-10-01` days, `2026-W40` weeks, `2026-10` months.

    Args:
        text: as it was typed.
        read: reads the file of that name, which has a value a line.

    Raises:
        InvalidRequestError: it has another form, or too many values.
    """
    name, equals, which = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise InvalidRequestError([f"{text!r}: write NAME=FROM..TO, NAME=A,B,C or NAME=@FILE"])
    is_file = which.startswith("@")
    if ".." in which and "," not in which and not is_file:
        values = tuple(_between(*which.split("..", 1)))
    else:
        texts = read(which[1:]).splitlines() if is_file else which.split(",")
        values = tuple(_value(each) for each in dict.fromkeys(map(str.strip, texts)) if each)
    if not values:
        raise InvalidRequestError([f"{text!r} has no values"])
    if len(values) > MAX_VALUES:
        raise InvalidRequestError([f"{text!r}: more than {MAX_VALUES:,} values: in several parts"])
    return Over(name, values)


def _value(text: str) -> Value:
    found = _time(text)
    return Value(text, found[0] if found else None)


def _time(text: str) -> tuple[datetime, str, timedelta] | None:
    for pattern, form, day, step in _FORMS:
        if pattern.fullmatch(text):
            try:
                # A week is read by its first day.
                return datetime.strptime(text + ("-1" if day else ""), form + day), form, step  # noqa: DTZ007 - a period has no zone
            except ValueError as error:
                raise InvalidRequestError([f"{text!r} is no time: {error}"]) from None
    return None


def _between(first: str, last: str) -> Iterator[Value]:
    begin, end = _time(first), _time(last)
    if begin is None or end is None or begin[1] != end[1]:
        why = (
            f"{first}..{last}: two times of one form, such as 2026-10-01..2026-10-31 (days), "
            "2026-10-01T00..2026-10-01T23 (hours), 2026-W40..2026-W44 or 2026-01..2026-12"
        )
        raise InvalidRequestError([why])
    at, form, step = begin
    if end[0] < at:
        raise InvalidRequestError([f"{first}..{last}: ends before it begins"])
    for _ in range(MAX_VALUES + 1):
        if at > end[0]:
            return
        yield Value(at.strftime(form), at)
        at += step
        if step == _A_MONTH:
            at = at.replace(day=1)


def documents(
    template: Mapping[str, Any], over: Over, name: str | None, job: str
) -> tuple[str, list[Document]]:
    """The backfill's name, and a request for each value.

    Args:
        template: the fields of a request, with `{NAME}` where the value goes.
        over: the values.
        name: of the backfill; None for one that is made of the template, so that the same command
            means the same backfill.
        job: what it runs, for such a name.

    Raises:
        InvalidRequestError: the value is not in the request, which would be the same for all.
    """
    what = {key: value for key, value in template.items() if key not in ("label", "tags")}
    first, *others = over.values
    if others and _filled(what, over.name, first) == _filled(what, over.name, others[0]):
        raise InvalidRequestError(
            [f"{{{over.name}}} is in no input, output or parameter: all requests would be the same"]
        )
    if name is None:
        text = json.dumps(what, sort_keys=True)
        name = f"backfill-{job[:32]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    label = template.get("label", f"{{{over.name}}}")
    found = []
    for value in over.values:
        tags = {over.name: value.text, "backfill": name, **template.get("tags", {})}
        fields = _filled({**what, "label": label, "tags": tags}, over.name, value)
        found.append(Document(value.text, {**fields, "job_id": f"{name}/{value.id}"}))
    return name, found


def _filled(value: Any, name: str, by: Value) -> Any:  # noqa: ANN401 - what JSON holds
    if isinstance(value, str):
        return by.fill(name, value)
    if isinstance(value, Mapping):
        return {key: _filled(each, name, by) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, name, by) for each in value]
    return value


def shared_outputs(requests: Sequence[Submission]) -> Iterator[Problem]:
    """A problem for each request that replaces, or is refused for, what one before it writes.

    Appending may share an output, and so may what replaces the partitions of a table that it has.
    """
    first: dict[str, Submission] = {}
    for each in requests:
        mode = each.request.mode
        for place, path in each.request.places.items():
            if mode == "append" or (mode == "overwrite_partitions" and is_table(path)):
                continue
            before = first.setdefault(path.rstrip("/"), each)
            if before is not each:
                yield Problem(
                    each.position,
                    f"{place}: {path} is where {before.position} writes too, and one would replace "
                    "the other: have the value in the output, or --mode append",
                )


Step = Literal["send", "skip", "wait"]


@dataclass(frozen=True)
class Planned:
    """A request of a backfill, and what is done with it."""

    submission: Submission
    awaited: Awaited

    @property
    def value(self) -> str:
        """The part of its job's id behind the backfill's name."""
        return self.submission.job_id.rpartition("/")[2]

    @property
    def step(self) -> Step:
        row = self.awaited.before
        if row is None:
            return "send"
        if row.state is State.SUCCEEDED:  # a cancel may have come too late
            return "skip"
        return "send" if row.state.is_terminal or row.cancel_requested_at else "wait"

    def has_begun_since(self, row: Lease | None) -> bool:
        """Whether its job's row, as it is now, is of a later run than at the plan."""
        before = self.awaited.before
        return row is not None and (before is None or row.run > before.run)

    @property
    def why(self) -> str:
        """What is known of its job, in a word; empty where nothing is."""
        return self.awaited.before.shown_state if self.awaited.before else ""


@dataclass
class Course:
    """How far a backfill is: by key, what is open and what has its outcome."""

    left: list[Planned] = field(default_factory=list)
    open: dict[str, Planned] = field(default_factory=dict)
    done: dict[str, Standing] = field(default_factory=dict)
    unsent: list[Unsent] = field(default_factory=list)


@dataclass(frozen=True)
class Backfiller:
    clock: Clock
    waiter: Waiter
    backfills: Backfills
    submitter: Submitter

    def run(
        self, stage: Stage, key: str, planned: Sequence[Planned], slots: int
    ) -> Iterator[Course]:
        """Send what is left, at most `slots` of its jobs open at a time; how far it is, each look.

        It ends when all were sent, or when SQS does not take one. Those that are open go on.
        What is to be sent is noted before, and each job again once it was sent: only then it can be
        waited for. A command that ends in between is started again, and what it sends twice is a
        duplicate.

        Args:
            stage: Of its jobs.
            key: Of the backfill.
            planned: Its requests.
            slots: Of how many jobs it lets go on at a time.

        Raises:
            BackfillCancelledError: somebody has cancelled it since.
        """
        known = self.backfills.find_backfills([key]).get(key, Backfill(key, ()))
        course = Course(left=[each for each in planned if each.step == "send"])
        course.open = {each.awaited.key: each for each in planned if each.step == "wait"}
        began_at = self.waiter.leases.aws_time()  # of the read of its rows, for the plan
        self._note(stage, key, [each for each in planned if each.step != "send"], None)
        left = [each.value for each in course.left]
        stale = {each: known.again[each] for each in left if each in known.again}
        now = self.clock.now()
        if left and not self.backfills.note_begun(key, left, now, began_at, stale):
            raise _cancelled(key, len(left))
        while True:
            for found in self.waiter.standings_of([each.awaited for each in course.open.values()]):
                if found.done:
                    course.done[found.key] = found
                    del course.open[found.key]
            room = max(0, slots - len(course.open))
            batch, course.left = course.left[:room], course.left[room:]
            if batch:
                if self._is_cancelled(key, began_at):
                    raise _cancelled(key, len(batch) + len(course.left))
                sent_at = self.waiter.leases.aws_time()
                batch = self._not_begun(stage, key, batch, course)
                report = self.submitter.submit(stage.queue_url, [each.submission for each in batch])
                course.unsent += report.unsent
                unsent = {each.submission.job_id for each in report.unsent}
                sent = [each for each in batch if each.submission.job_id not in unsent]
                course.open |= {each.awaited.key: each for each in sent}
                self._note(stage, key, sent, sent_at)
                if self._is_cancelled(key, began_at):
                    for each in sent:
                        self.waiter.leases.request_cancel(each.awaited.key, stage.name)
                    raise _cancelled(key, len(course.left) + len(course.unsent))
                if report.stopped_by is not None:
                    raise report.stopped_by
            yield course
            if not course.left or course.unsent:
                return
            self.clock.sleep(_PERIOD_S)

    def _not_begun(
        self, stage: Stage, key: str, batch: Sequence[Planned], course: Course
    ) -> list[Planned]:
        """The batch without what another command has sent since the plan: that is waited for."""
        rows = self.waiter.leases.load_many([each.awaited.key for each in batch])
        begun = [each for each in batch if each.has_begun_since(rows.get(each.awaited.key))]
        course.open |= {each.awaited.key: each for each in begun}
        self._note(stage, key, begun, None)
        return [each for each in batch if each not in begun]

    def _note(
        self, stage: Stage, key: str, planned: Sequence[Planned], sent_at: datetime | None
    ) -> None:
        """Note what was sent, at this time or by earlier commands, of which one may have died."""
        values = {each.value for each in planned}
        if not values:
            return
        again = {each.value: sent_at for each in planned if sent_at and each.awaited.before}
        before = self.backfills.find_backfills([key]).get(key)
        is_known = before is not None and before.watch and values <= {*before.values}
        watches = stage.tells_trees and (sent_at is not None or not is_known)
        self.backfills.note_sent(key, values, self.clock.now(), again, watches=watches)

    def _is_cancelled(self, key: str, began_at: datetime) -> bool:
        found = self.backfills.find_backfills([key]).get(key)
        return found is not None and found.is_cancelled_since(began_at)


def size_with(known: Backfill | None, planned: Sequence[Planned]) -> int:
    """The most bytes that a backfill's item has for its values while these are sent."""
    known = known or Backfill("", ())
    sends = [each for each in planned if each.step == "send"]
    again = {*known.again, *(each.value for each in sends if each.awaited.before)}
    texts = [
        *{*known.values, *(each.value for each in planned if each.step != "send")},
        *{*known.left, *(each.value for each in sends)},
        *(f"{each}@{_TIME}" for each in again),
    ]
    return sum(len(each) + 1 for each in texts)


def _cancelled(key: str, left: int) -> BackfillCancelledError:
    return BackfillCancelledError(
        f"backfill {key.partition('#')[2]} was cancelled: {left:,} requests were not sent; to go "
        "on, start the same command again"
    )
