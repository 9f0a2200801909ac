"""Look at dead letters, send them back, drop them.

Letters are handled one at a time, and each is sent before it is deleted, so that an interrupt loses
none. A crash in between leaves a letter in both queues; the second copy is then a duplicate.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from longhaul.operations.letter import DeadLetter, redriven
from longhaul.operations.sqs_dead_letters import SqsDeadLetters
from longhaul.ports import Clock, JobQueue
from longhaul.settings import Stage

_HOLD_S = 60
_HELD_PER_SECOND = 10
"""Letters of a pass for each second of its hold: far fewer than it can handle.

A letter that becomes visible before the pass ends is received twice.
"""
_MAX_HOLD_S = 3600
_MIN_PREFIX = 8


@dataclass(frozen=True)
class Which:
    """A selection of dead letters: those that match every given field.

    `names` are job ids, message ids, or at least the first eight characters of a message id.
    """

    names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    older_than: timedelta | None = None
    newer_than: timedelta | None = None
    message_ids: frozenset[str] | None = None

    def matches(self, letter: DeadLetter, now: datetime) -> bool:
        age = now - letter.sent_at
        return (
            (not self.names or bool(self.names_of(letter)))
            and (not self.kinds or letter.kind in self.kinds)
            and (self.older_than is None or age >= self.older_than)
            and (self.newer_than is None or age <= self.newer_than)
            and (self.message_ids is None or letter.message_id in self.message_ids)
        )

    def names_of(self, letter: DeadLetter) -> set[str]:
        """Those of the names that mean this letter."""
        return {name for name in self.names if _is_named(letter, name)}


@dataclass
class Handled:
    """The number of handled letters, and those still in the queue, each with the reason."""

    done: int = 0
    failed: list[tuple[DeadLetter, str]] = field(default_factory=list)


@dataclass(frozen=True)
class DeadLetterOffice:
    clock: Clock
    letters: SqsDeadLetters
    queue: JobQueue

    def waiting(self, stage: Stage) -> int:
        return self.letters.waiting(stage.dead_letter_queue_url)

    def look(self, stage: Stage, which: Which) -> Generator[DeadLetter, None, None]:
        """Each letter that matches, once.

        They are invisible while this goes on, and visible again when the iterator is closed.
        """
        with self._pass(stage) as each:
            for letter in each:
                if which.matches(letter, self.clock.now()):
                    yield letter

    def look_in(
        self, stages: Iterable[Stage], which: Which
    ) -> Generator[tuple[DeadLetter, Stage], None, None]:
        """`look` in one stage after the other."""
        for stage in stages:
            with closing(self.look(stage, which)) as letters:
                yield from ((letter, stage) for letter in letters)

    def redrive(
        self,
        stage: Stage,
        which: Which,
        on_done: Callable[[DeadLetter], None] = lambda _: None,
        *,
        afresh: bool = False,
    ) -> Handled:
        """Send each letter that matches back to the stage's jobs queue, then delete it here.

        With `afresh` their jobs leave what they have stored. What is no request stays.
        """

        def send_back(letter: DeadLetter) -> str | None:
            if letter.request is None:
                return (
                    "its body is no valid request, which cannot run: `longhaul dlq drop` drops it"
                )
            message = redriven(letter, afresh=afresh)
            (answer,) = self.queue.send_batch(stage.queue_url, [message])
            return answer.reason if answer.message_id is None else None

        return self._handle(stage, which, send_back, on_done)

    def drop(
        self, stage: Stage, which: Which, on_done: Callable[[DeadLetter], None] = lambda _: None
    ) -> Handled:
        """Delete each letter that matches, for good."""
        return self._handle(stage, which, lambda _: None, on_done)

    def _handle(
        self,
        stage: Stage,
        which: Which,
        first: Callable[[DeadLetter], str | None],
        on_done: Callable[[DeadLetter], None],
    ) -> Handled:
        handled = Handled()
        with self._pass(stage) as each:
            for letter in each:
                if not which.matches(letter, self.clock.now()):
                    continue
                problem = first(letter)
                if problem is None and not self.letters.delete(
                    stage.dead_letter_queue_url, letter.receipt_handle
                ):
                    problem = (
                        "another process has received it meanwhile: "
                        "it may still be in the dead-letter queue"
                    )
                if problem is not None:
                    handled.failed.append((letter, problem))
                    continue
                handled.done += 1
                on_done(letter)
        return handled

    @contextmanager
    def _pass(self, stage: Stage) -> Iterator[Iterator[DeadLetter]]:
        """Each letter that was there at the start, once. At the end the rest is visible again."""
        held: dict[str, str] = {}
        try:
            yield self._each_letter(stage.dead_letter_queue_url, held)
        finally:
            # SQS ignores those that were deleted.
            self.letters.release(stage.dead_letter_queue_url, list(held.values()))

    def _each_letter(self, queue_url: str, held: dict[str, str]) -> Iterator[DeadLetter]:
        begun = self.clock.now()
        hold_s = min(_HOLD_S + self.letters.waiting(queue_url) // _HELD_PER_SECOND, _MAX_HOLD_S)
        while letters := self.letters.receive(queue_url, hold_s):
            news = [letter for letter in letters if letter.message_id not in held]
            held |= {letter.message_id: letter.receipt_handle for letter in letters}
            if not news:
                # Letters we hold came back: the pass outlived their timeout, or another process is
                # receiving.
                return
            for letter in news:
                # A later letter may be one that we sent back. A job that dies at once would keep
                # this pass going for ever.
                if letter.sent_at <= begun:
                    yield letter


def _is_named(letter: DeadLetter, name: str) -> bool:
    return name in (letter.job_id, letter.label, letter.message_id) or (
        len(name) >= _MIN_PREFIX and letter.message_id.startswith(name)
    )
