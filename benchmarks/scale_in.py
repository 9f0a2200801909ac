"""Work that is lost by job length: workers that are scaled in on late metrics, beside Longhaul.

    .venv/bin/python -m benchmarks.scale_in [--seeds 10]

The other design is an ECS service whose workers poll a queue, scaled by alarms on its metrics. A
worker receives a message under a long visibility timeout, works, and deletes it. Workers are added
while messages wait, and taken away while none do. Metrics reach CloudWatch up to 15 minutes late. A
service that scales in stops tasks regardless of their work: SIGTERM, and SIGKILL 30 seconds later.
A stopped worker's message becomes visible when its visibility timeout ends. After three receives
SQS moves it to the dead-letter queue, without a reason.

Longhaul's side runs the real handlers, in a simulated world without faults. All times are virtual,
and the same seeds give the same figures.

Sources: "Available CloudWatch metrics for Amazon SQS" (SQS Developer Guide): a queue is active for
six hours after the last call, and the metrics of one that becomes active are up to 15 minutes late;
"Step scaling policies" and "Service scheduler" (ECS Developer Guide); Cooldown, 300 s by default,
in StepScalingPolicyConfiguration (Application Auto Scaling API).
"""

import argparse
import json
import logging
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from statistics import fmean
from typing import Final, Literal

from benchmarks.growth import run_to_end
from simulation.aws.cloud import FakeAws
from simulation.aws.cloudwatch import MAX_LATE_S, Alarm, State, Value
from simulation.aws.platform.timeline import Process, Timeline
from simulation.worlds.plan import Act, Plan
from simulation.worlds.plan import Job as PlannedJob

Watched = Literal["visible", "all", "three"]
"""What the alarms watch, and how the service scales.

`visible`: ApproximateNumberOfMessagesVisible, as in most tutorials. `all`: with NotVisible added,
so that running jobs count too. Both scale in steps, and each value is late. `three`: Visible,
NotVisible and Delayed, late each by itself after idle hours; the service is on (all workers) while
their sum is not 0, and its count is set to 0 when it is.
"""

VARIANTS: Final[Mapping[str, tuple[Watched, int]]] = {
    "visible messages, over 1 min": ("visible", 1),
    "visible messages, over 15 min": ("visible", 15),
    "visible + in flight, over 1 min": ("all", 1),
    "visible + in flight, over 15 min": ("all", 15),
    "the incident, over 1 min": ("three", 1),
    "the incident, over 15 min": ("three", 15),
}
"""What is watched, and the minutes of the scale-in alarm's period."""

MEAN_MINUTES: Final = (5, 10, 20, 40, 80, 160, 320)
_METRICS: Final[Mapping[Watched, Sequence[str]]] = {
    "visible": [""],
    "all": ["", "NotVisible"],
    "three": ["", "NotVisible", "Delayed"],
}
_MAX_WORKERS = 10  # Longhaul has as many slots
_START_S = 60
_STOP_TIMEOUT_S = 30
_COOLDOWN_S = 300
_MAX_RECEIVES = 3
_LONGEST_VISIBILITY_S = 43_200
_POLL_S = 20
_STEPS = ((5, 5), (1, 1))  # messages at least → workers to add
_ACTIVE_S = 21_600
_METRICS_KEPT_S = 3_600
_HORIZON = timedelta(days=60)
_DEFAULT_TIMEOUT_S = 21_600


@dataclass(frozen=True)
class Job:
    n: int
    sent_at_s: float
    length_s: float


@dataclass
class Outcome:
    """What a design did with the jobs.

    Attributes:
        stopped: Attempts that were stopped while they worked.
        lost_s: Their work.
        paid_s: The time of all tasks, idle or not.
    """

    done: int = 0
    dead_letters: int = 0
    stopped: int = 0
    useful_s: float = 0
    lost_s: float = 0
    paid_s: float = 0

    @property
    def lost_share(self) -> float:
        """The part of all work that was lost."""
        return self.lost_s / (self.lost_s + self.useful_s) if self.lost_s else 0.0


def bursts(mean_s: float, rng: random.Random, count: int = 10) -> list[Job]:
    """Bursts of one to six jobs with pauses of about 45 minutes, so that the queue often empties.

    A job takes between a half and one and a half of the mean length.
    """
    jobs: list[Job] = []
    at = 0.0
    for _ in range(count):
        for _ in range(rng.randint(1, 6)):
            jobs.append(Job(len(jobs), at + rng.uniform(0, 30), mean_s * rng.uniform(0.5, 1.5)))
        at += rng.expovariate(1 / 2700)
    return jobs


def nights(mean_s: float, rng: random.Random, count: int = 5) -> list[Job]:
    """One burst of one to six jobs a day, so that the queue is asleep when it comes."""
    sent = (
        (86_400 * day + rng.uniform(0, 30), mean_s * rng.uniform(0.5, 1.5))
        for day in range(count)
        for _ in range(rng.randint(1, 6))
    )
    return [Job(n, *each) for n, each in enumerate(sent)]


class Metrics:
    """A queue's metrics as CloudWatch knows them.

    Where a queue sleeps, each metric is silent by itself until it has been awake for up to 15
    minutes. Then comes all that was measured since, and later values are on time. Of one that never
    sleeps, each value of the sum is late by itself.
    """

    def __init__(self, rng: random.Random, *, sleeps: bool) -> None:
        self._rng = rng
        self._sleeps = sleeps
        self._shown_at: dict[str, float] = {}  # empty while the queue is inactive
        self._values: dict[str, list[Value]] = {}

    def record(self, at: float, counts: Mapping[str, int], called_at: float) -> None:
        """SQS measures; `called_at` is the second of the last call to the queue."""
        if not self._sleeps:
            self._add("sum", Value(at, sum(counts.values()), at + self._late_s()))
        elif at - called_at > _ACTIVE_S:
            self._shown_at = {}
        else:
            for name, count in counts.items():
                shown_at = self._shown_at.setdefault(name, at + self._late_s())
                self._add(name, Value(at, count, max(at, shown_at)))

    def known(self, now: float) -> list[Value]:
        """What an alarm on their sum sees: of each minute the metrics that have come."""
        sums: dict[float, float] = {}
        for values in self._values.values():
            for value in values:
                if value.visible_at <= now:
                    sums[value.at] = sums.get(value.at, 0) + value.value
        return [Value(at, total, at) for at, total in sums.items()]

    def _add(self, name: str, value: Value) -> None:
        recent = [v for v in self._values.get(name, []) if v.at > value.at - _METRICS_KEPT_S]
        self._values[name] = [*recent, value]

    def _late_s(self) -> float:
        return self._rng.uniform(0, MAX_LATE_S)


@dataclass(eq=False)
class Worker:
    process: Process | None = None
    job: Job | None = None
    since: datetime | None = None


class AlarmDriven:
    """The other design, with these jobs; `minutes` is the period of its scale-in alarm."""

    def __init__(self, jobs: Sequence[Job], *, watched: Watched, minutes: int, seed: int) -> None:
        self._aws = FakeAws()
        self._timeline = Timeline(self._aws.clock)
        self._rng = random.Random(seed)  # noqa: S311 - seeded on purpose
        self._watched = watched
        self._is_on_or_off = watched == "three"
        self._jobs = {f"{job.n}": job for job in jobs}
        self._visibility_s = min(
            _LONGEST_VISIBILITY_S, round(2 * max(job.length_s for job in jobs))
        )
        self._out = Alarm(60, 1, 1, "Maximum", "GreaterThanOrEqualToThreshold", 1, "ignore")
        self._in = Alarm(60 * minutes, 1, 1, "Maximum", "LessThanThreshold", 1, "ignore")
        self._states: dict[Alarm, State] = {self._out: "OK", self._in: "OK"}
        self._metrics = Metrics(self._rng, sleeps=self._is_on_or_off)
        self._called_at = 0.0  # the last call to the queue
        self._workers: list[Worker] = []
        self._cool_at = self._began = self._aws.clock.now()
        self._unsent = len(jobs)
        self.outcome = Outcome()

    def run(self) -> Outcome:
        sqs = self._aws.sqs
        dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
        redrive = {"deadLetterTargetArn": sqs.queues[dead].arn, "maxReceiveCount": _MAX_RECEIVES}
        attributes = {"RedrivePolicy": json.dumps(redrive), "MessageRetentionPeriod": "1209600"}
        self._url = sqs.create_queue(QueueName="jobs", Attributes=attributes)["QueueUrl"]
        for job in self._jobs.values():
            self._timeline.after(job.sent_at_s, partial(self._send, job))
        self._timeline.after(60, self._minute)
        until = self._began + _HORIZON
        while self._timeline.step(until) and (self._unsent or sqs.queues[self._url].messages):
            pass
        self.outcome.dead_letters = len(sqs.queues[dead].messages)
        return self.outcome

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
                last = max(values, key=lambda value: value.at, default=Value(0, 0, 0))
                self._scale_out(last.value)
            elif self._states[self._in] == "ALARM":
                for _ in self._workers[:] if self._is_on_or_off else self._workers[:1]:
                    self._scale_in()
        self._timeline.after(60, self._minute)

    def _counts(self) -> dict[str, int]:
        names = [f"ApproximateNumberOfMessages{name}" for name in _METRICS[self._watched]]
        answer = self._aws.sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=names)
        return {name: int(answer["Attributes"][name]) for name in names}

    def _now(self) -> float:
        return (self._aws.clock.now() - self._began).total_seconds()

    def _scale_out(self, messages: float) -> None:
        steps = ((1, _MAX_WORKERS),) if self._is_on_or_off else _STEPS
        wanted = next((add for least, add in steps if messages >= least), 0)
        for _ in range(min(wanted, _MAX_WORKERS - len(self._workers))):
            worker = Worker()
            self._workers.append(worker)
            worker.process = self._timeline.spawn(partial(self._work, worker), ended=_must_not_end)
            self._cool_down()

    def _scale_in(self) -> None:
        """One task less; the service does not know which of them works."""
        worker = self._workers.pop(self._rng.randrange(len(self._workers)))
        self._cool_down()
        if worker.job and worker.since:
            worked_s = (self._aws.clock.now() - worker.since).total_seconds()
            if worker.job.length_s - worked_s <= _STOP_TIMEOUT_S:
                return  # it ends before SIGKILL, and then the worker idles
            self.outcome.stopped += 1
            self.outcome.lost_s += worked_s
        if worker.process:
            worker.process.kill()

    def _cool_down(self) -> None:
        self._cool_at = self._aws.clock.now() + timedelta(seconds=_COOLDOWN_S)

    def _work(self, worker: Worker) -> None:
        self._timeline.sleep(_START_S)
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
                self._timeline.sleep(_POLL_S)


def _must_not_end(error: BaseException | None, _: object) -> None:
    raise AssertionError("a worker ended by itself") from error


def by_alarms(mean_s: float, watched: Watched, minutes: int, seed: int) -> Outcome:
    work = nights if watched == "three" else bursts
    jobs = work(mean_s, random.Random(seed))  # noqa: S311 - seeded on purpose
    return AlarmDriven(jobs, watched=watched, minutes=minutes, seed=seed).run()


def by_leases(jobs: Sequence[Job]) -> Outcome:
    """Run the jobs through Longhaul, to their end."""
    planned = tuple(
        PlannedJob(
            f"job-{job.n}",
            work_s=job.length_s,
            files=1,
            timeout_s=max(_DEFAULT_TIMEOUT_S, round(2 * job.length_s)),
        )
        for job in jobs
    )
    acts = tuple(Act(job.sent_at_s, "submit", f"job-{job.n}") for job in jobs)
    world = run_to_end(Plan(jobs=planned, acts=acts, faults=(), slots=_MAX_WORKERS))
    length_s = {f"job-{job.n}": job.length_s for job in jobs}
    outcome = Outcome(dead_letters=len(world.seen.dead_letters))
    for token in world.seen.published:
        outcome.done += 1
        outcome.useful_s += length_s[world.seen.names[token.key]]
    for cluster in world.aws.ecs.clusters.values():
        for task in cluster.tasks.values():
            if task.stopped_at is None or task.started_at is None:
                raise AssertionError(f"{task.arn} has not come to an end")
            outcome.paid_s += (task.stopped_at - task.created_at).total_seconds()
            if task.stop_code != "EssentialContainerExited":
                outcome.stopped += 1
                outcome.lost_s += (task.stopped_at - task.started_at).total_seconds()
    outcome.stopped += sum(
        execution.status == "ABORTED" for execution in world.aws.stepfunctions.executions.values()
    )
    return outcome


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10, help="Longhaul gets a fifth of them")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    for name, (watched, minutes) in VARIANTS.items():
        _print(
            name,
            [
                [by_alarms(60 * mean, watched, minutes, seed) for seed in range(options.seeds)]
                for mean in MEAN_MINUTES
            ],
        )
    seeds = range(max(1, options.seeds // 5))
    _print(
        "Longhaul",
        [
            [by_leases(bursts(60 * mean, random.Random(seed), 4)) for seed in seeds]  # noqa: S311 - seeded on purpose
            for mean in MEAN_MINUTES
        ],
    )


def _print(name: str, rows: Sequence[Sequence[Outcome]]) -> None:
    """A line of figures from the outcomes for each mean length."""
    outcomes = [each for row in rows for each in row]
    used = fmean(each.useful_s / each.paid_s for each in outcomes)
    sys.stdout.write(
        f"{name:34} lost {' '.join(f'{fmean(o.lost_share for o in row):5.1%}' for row in rows)}"
        f"   stopped {sum(each.stopped for each in outcomes):4}"
        f" of {sum(each.done + each.dead_letters for each in outcomes):4}"
        f"   dead letters {sum(each.dead_letters for each in outcomes):4}"
        f"   paid time used {used:4.0%}\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
