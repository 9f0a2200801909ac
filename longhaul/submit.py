"""Send job requests to a stage's queue: thousands at once, and nothing unaccounted for, whatever happens on the way."""

import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event

from longhaul.domain.message import MessageContent
from longhaul.domain.submission import Submission, batches
from longhaul.ports import Clock, JobQueue

_TRIES = 5
_BACK_OFF_S = 0.5
# Ten messages take SQS some twenty milliseconds: eight at a time send thousands in a second or two, well within the connections of one client.
_AT_ONCE = 8


@dataclass(frozen=True)
class Sent:
    submission: Submission
    message_id: str


@dataclass(frozen=True)
class Unsent:
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
    rng: random.Random
    queue: JobQueue

    def submit(
        self, queue_url: str, submissions: Sequence[Submission], on_sent: Callable[[int], None] = lambda _: None
    ) -> SubmitReport:
        """Send them in batches, several at a time; what SQS refused for the moment is sent again.

        An interrupt or an error stops it after the batches that are under way. What is then in `unsent` may be submitted again as it is: each has its job id, so one
        that did arrive after all is a duplicate.

        Args:
            queue_url: of the stage's jobs queue.
            submissions: what to send.
            on_sent: told, in any thread, how many more were sent.
        """
        report, stop = SubmitReport(), Event()
        waiting = list(batches(submissions))

        def send(batch: list[Submission]) -> SubmitReport:
            part = SubmitReport()
            try:
                self._send(queue_url, batch, part, stop)
            except Exception as error:  # noqa: BLE001 - the report says what was sent in spite of it; the caller raises it
                stop.set()
                part.stopped_by = error
            on_sent(len(part.sent))
            return part

        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="submit") as pool:
            futures = [pool.submit(send, batch) for batch in waiting]
            try:
                wait(futures)
            except KeyboardInterrupt as interrupt:
                stop.set()
                report.stopped_by = interrupt
                _wait_in_spite_of_interrupts(futures)
        for future in futures:
            part = future.result()
            report.sent += part.sent
            report.unsent += part.unsent
            report.stopped_by = report.stopped_by or part.stopped_by
        return report

    def _send(self, queue_url: str, batch: list[Submission], part: SubmitReport, stop: Event) -> None:
        reasons = dict.fromkeys((id(each) for each in batch), "not sent: stopped before its turn")
        left = batch
        try:
            for attempt in range(_TRIES):
                if stop.is_set():
                    return
                if attempt:
                    self.clock.sleep(self.rng.uniform(0, _BACK_OFF_S * 2**attempt))
                answers = self.queue.send_batch(queue_url, [MessageContent(each.body, {}) for each in left])
                again = []
                for each, answer in zip(left, answers, strict=True):
                    if answer.message_id is not None:
                        part.sent.append(Sent(each, answer.message_id))
                    elif answer.again:
                        again.append(each)
                        reasons[id(each)] = f"refused {attempt + 1} times, the last time: {answer.reason}"
                    else:
                        part.unsent.append(Unsent(each, answer.reason))
                left = again
                if not left:
                    return
        finally:
            part.unsent += [Unsent(each, reasons[id(each)]) for each in left]


def _wait_in_spite_of_interrupts(futures: Sequence[Future[SubmitReport]]) -> None:
    """Until the batches under way have ended, seconds at the most: what became of them has to be known."""
    while True:
        try:
            wait(futures)
        except KeyboardInterrupt:
            continue
        return
