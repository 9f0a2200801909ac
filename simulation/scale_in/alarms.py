"""Another design: workers of an ECS service on a queue, scaled by alarms on the queue's metrics.

A worker receives a message under a long visibility timeout, works, and deletes it. Step scaling
adds workers while messages wait, and takes some away while none do. Metrics reach CloudWatch up to
15 minutes late (`simulation.scale_in.metrics`). A service that scales in stops tasks regardless of
their work: SIGTERM, and SIGKILL 30 seconds later. A stopped worker's message becomes visible when
its visibility timeout ends. After three receives SQS moves it to the dead-letter queue, without a
reason.

Sources: "Available CloudWatch metrics for Amazon SQS" (SQS Developer Guide); "Step scaling
policies" and "Service scheduler" (ECS Developer Guide); Cooldown, 300 s by default, in
StepScalingPolicyConfiguration (Application Auto Scaling API).
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from simulation.aws.cloud import FakeAws
from simulation.aws.cloudwatch import Alarm, State, Value
from simulation.aws.platform.timeline import Process, Timeline
from simulation.scale_in.metrics import LateAfterIdle, LateAlways, Metrics
from simulation.scale_in.work import Job, Outcome

Watched = Literal["visible", "all", "three"]
"""What the alarms watch, and how the service scales.

`visible`: ApproximateNumberOfMessagesVisible, as in most tutorials. `all`: with NotVisible added,
so that running jobs count too. Both scale in steps, and each value is late. `three`: Visible,
NotVisible and Delayed, late each by itself after idle hours; the service is on (all workers) while
their sum is not 0, and its count is set to 0 when it is.
"""

_METRICS: Mapping[Watched, Sequence[str]] = {
    "visible": [""],
    "all": ["", "NotVisible"],
    "three": ["", "NotVisible", "Delayed"],
}

MAX_WORKERS = 10
START_S = 60
STOP_TIMEOUT_S = 30
COOLDOWN_S = 300
MAX_RECEIVES = 3
LONGEST_VISIBILITY_S = 43_200
POLL_S = 20
STEPS = ((5, 5), (1, 1))  # messages at least → workers to add
ON = ((1, MAX_WORKERS),)  # for a service that is on or off
_NONE = Value(0, 0, 0)
_HORIZON = timedelta(days=60)


@dataclass(eq=False)
class Worker:
    process: Process | None = None
    job: Job | None = None
    since: datetime | None = None


class AlarmDriven:
    def __init__(self, jobs: Sequence[Job], *, watched: Watched, minutes: int, seed: int) -> None:
        """`minutes`: the period of the scale-in alarm."""
        self._aws = FakeAws()
        self._timeline = Timeline(self._aws.clock)
        self._rng = random.Random(seed)
        self._watched = watched
        self._jobs = {f"{job.n}": job for job in jobs}
        self._visibility_s = min(LONGEST_VISIBILITY_S, round(2 * max(job.length_s for job in jobs)))
        self._out = Alarm(60, 1, 1, "Maximum", "GreaterThanOrEqualToThreshold", 1, "ignore")
        self._in = Alarm(60 * minutes, 1, 1, "Maximum", "LessThanThreshold", 1, "ignore")
        self._states: dict[Alarm, State] = {self._out: "OK", self._in: "OK"}
        self._metrics: Metrics = (
            LateAfterIdle(self._rng) if watched == "three" else LateAlways(self._rng)
        )
        self._steps = ON if watched == "three" else STEPS
        self._called_at = 0.0  # the last call to the queue
        self._workers: list[Worker] = []
        self._cool_at = self._aws.clock.now()
        self._began = self._aws.clock.now()
        self._unsent = len(jobs)
        self.outcome = Outcome()

    def run(self) -> Outcome:
        sqs = self._aws.sqs
        self._dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
        redrive = {
            "deadLetterTargetArn": sqs.queues[self._dead].arn,
            "maxReceiveCount": MAX_RECEIVES,
        }
        attributes = {"RedrivePolicy": json.dumps(redrive), "MessageRetentionPeriod": "1209600"}
        self._url = sqs.create_queue(QueueName="jobs", Attributes=attributes)["QueueUrl"]
        for job in self._jobs.values():
            self._timeline.after(job.sent_at_s, partial(self._send, job))
        self._timeline.after(60, self._minute)
        until = self._began + _HORIZON
        while self._timeline.step(until) and not self._is_over:
            pass
        self.outcome.dead_letters = len(sqs.queues[self._dead].messages)
        return self.outcome

    @property
    def _is_over(self) -> bool:
        return not self._unsent and not self._aws.sqs.queues[self._url].messages

    def _send(self, job: Job) -> None:
        self._unsent -= 1
        self._called_at = self._now()
        self._aws.sqs.send_message(QueueUrl=self._url, MessageBody=f"{job.n}")

    def _minute(self) -> None:
        """Once a minute: SQS measures, CloudWatch evaluates, the service scales."""
        now = self._now()
        self.outcome.paid_s += 60 * len(self._workers)
        self._metrics.record(now, self._counts(), self._called_at)
        values = self._metrics.known(now)
        for alarm, before in self._states.items():
            self._states[alarm] = alarm.state(values, now, before)
        # An alarm invokes its scaling policy each minute while it lasts; the cool-down limits that.
        if self._aws.clock.now() >= self._cool_at:
            if self._states[self._out] == "ALARM":
                self._scale_out(max(values, key=lambda value: value.at, default=_NONE).value)
            elif self._states[self._in] == "ALARM":
                for _ in self._workers[:] if self._watched == "three" else self._workers[:1]:
                    self._scale_in()
        self._timeline.after(60, self._minute)

    def _counts(self) -> dict[str, int]:
        names = [f"ApproximateNumberOfMessages{name}" for name in _METRICS[self._watched]]
        found = self._aws.sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=names)
        return {name: int(found["Attributes"][name]) for name in names}

    def _now(self) -> float:
        return (self._aws.clock.now() - self._began).total_seconds()

    def _scale_out(self, messages: float) -> None:
        wanted = next((add for least, add in self._steps if messages >= least), 0)
        for _ in range(min(wanted, MAX_WORKERS - len(self._workers))):
            worker = Worker()
            self._workers.append(worker)
            worker.process = self._timeline.spawn(partial(self._work, worker), ended=_must_not_end)
            self._cool_at = self._aws.clock.now() + timedelta(seconds=COOLDOWN_S)

    def _scale_in(self) -> None:
        """One task less; the service does not know which of them works."""
        worker = self._workers.pop(self._rng.randrange(len(self._workers)))
        self._cool_at = self._aws.clock.now() + timedelta(seconds=COOLDOWN_S)
        if worker.job and worker.since:
            worked_s = (self._aws.clock.now() - worker.since).total_seconds()
            if worker.job.length_s - worked_s <= STOP_TIMEOUT_S:
                return  # it ends before SIGKILL, and then the worker idles
            self.outcome.stopped += 1
            self.outcome.lost_s += worked_s
        if worker.process:
            worker.process.kill()

    def _work(self, worker: Worker) -> None:
        self._timeline.sleep(START_S)
        while True:
            self._called_at = self._now()
            answer = self._aws.sqs.receive_message(
                QueueUrl=self._url, VisibilityTimeout=self._visibility_s
            )
            if messages := answer.get("Messages"):
                (message,) = messages
                worker.job, worker.since = self._jobs[message["Body"]], self._aws.clock.now()
                self._timeline.sleep(worker.job.length_s)
                self._called_at = self._now()
                self._aws.sqs.delete_message(
                    QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"]
                )
                self.outcome.done += 1
                self.outcome.useful_s += worker.job.length_s
                worker.job = worker.since = None
            elif worker not in self._workers:
                self._timeline.sleep(_HORIZON.total_seconds())
            else:
                self._timeline.sleep(POLL_S)


def _must_not_end(error: BaseException | None, _: object) -> None:
    raise AssertionError("a worker ended by itself") from error
