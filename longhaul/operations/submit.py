"""Send job requests to a stage's queue, by the thousand, and account for each of them."""

import random
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event

from longhaul.domain.message import Message
from longhaul.operations.submission import Submission, batches
from longhaul.ports import Clock, JobQueue

_TRIES = 5
_BACK_OFF_S = 0.5
# SQS takes some twenty milliseconds for a batch of ten. Eight batches at a time send thousands in a
# second or two, within the ten connections of one client.
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
        waiting = list(batches(submissions))

        def send(batch: list[Submission]) -> SubmitReport:
            part = SubmitReport()
            try:
                self._send(queue_url, batch, group_id, part, stop)
            except Exception as error:  # noqa: BLE001 - reported with what was sent; the caller raises it
                stop.set()
                part.stopped_by = error
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

    def _send(
        self,
        queue_url: str,
        batch: list[Submission],
        group_id: str | None,
        part: SubmitReport,
        stop: Event,
    ) -> None:
        reasons = dict.fromkeys((id(each) for each in batch), "not sent: stopped before its turn")
        unanswered = batch
        try:
            for attempt in range(_TRIES):
                if stop.is_set():
                    return
                if attempt:
                    self.clock.sleep(self.rng.uniform(0, _BACK_OFF_S * 2**attempt))
                answers = self.queue.send_batch(
                    queue_url, [Message(each.body, {}, group_id) for each in unanswered]
                )
                again = []
                for each, answer in zip(unanswered, answers, strict=True):
                    if answer.message_id is not None:
                        part.sent.append(Sent(each, answer.message_id))
                    elif answer.again:
                        again.append(each)
                        reasons[id(each)] = (
                            f"refused {attempt + 1} times, the last time: {answer.reason}"
                        )
                    else:
                        part.unsent.append(Unsent(each, answer.reason))
                unanswered = again
                if not unanswered:
                    return
        finally:
            part.unsent += [Unsent(each, reasons[id(each)]) for each in unanswered]


def _wait_in_spite_of_interrupts(futures: Sequence[Future[SubmitReport]]) -> None:
    """Wait for the batches under way, which take seconds: the report needs their results."""
    while True:
        try:
            wait(futures)
        except KeyboardInterrupt:
            continue
        return
