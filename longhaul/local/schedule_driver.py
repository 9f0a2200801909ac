"""EventBridge Scheduler on this machine: schedules of a template, and those that the API makes.

A schedule is `cron(…)` or `rate(…)` without a flexible window. It sends a message: its
input to a queue, or what its input says by SQS's SendMessage. What fires is judged by the
schedule's role, as on AWS, and what that may not send goes to the schedule's dead-letter queue. AWS
tries for a day first. Nothing fires that was due while the embedded AWS did not run.
"""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any, Final

from moto.scheduler.models import scheduler_backends
from moto.sqs.models import sqs_backends

from longhaul.local.firing import following

LOG = logging.getLogger(__name__)
_LOOK_EVERY_S: Final = 1.0
_SEND_MESSAGE: Final = ":aws-sdk:sqs:sendMessage"

Allows = Callable[[str, str, str], bool]
"""Whether a role may do an action on a resource."""


class ScheduleDriver:
    def __init__(self, *, account: str, region: str, allows: Allows = lambda *_: True) -> None:
        self._account = account
        self._region = region
        self._allows = allows
        self._closing = Event()
        self._thread: Thread | None = None
        # By ARN and plan: its next firing.
        self._next: dict[tuple[str, ...], datetime | None] = {}

    def start(self) -> None:
        """Fire what is due from now on."""
        self._thread = Thread(target=self._keep, name="schedules", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def fire_due(self, now: datetime) -> None:
        """Fire what is due at `now`; a schedule begins when it was made or changed."""
        seen: dict[tuple[str, ...], datetime | None] = {}
        for schedule in self._schedules():
            plan = (
                schedule.arn,
                schedule.schedule_expression,
                schedule.schedule_expression_timezone,
                schedule.state,
            )
            try:
                due = self._next[plan] if plan in self._next else _following(schedule)
                while due is not None and due <= now:
                    self._send(schedule, due)
                    due = _following(schedule, due)
            except Exception:
                LOG.exception("schedule %s does not fire", schedule.name)
                due = None
            seen[plan] = due
        self._next = seen

    def _keep(self) -> None:
        while not self._closing.wait(_LOOK_EVERY_S):
            self.fire_due(datetime.now(UTC))

    def _schedules(self) -> Iterator[Any]:
        for group in list(scheduler_backends[self._account][self._region].schedule_groups.values()):
            yield from list(group.schedules.values())

    def _send(self, schedule: Any, at: datetime) -> None:
        target = schedule.target
        text = target.get("Input", "{}")
        for keyword, value in (
            ("<aws.scheduler.scheduled-time>", at.strftime("%Y-%m-%dT%H:%M:%SZ")),
            ("<aws.scheduler.schedule-arn>", schedule.arn),
        ):
            text = text.replace(keyword, value)
        arn, sent = target["Arn"], {"MessageBody": text}
        if arn.endswith(_SEND_MESSAGE):
            sent = json.loads(text)
            name = sent["QueueUrl"].rpartition("/")[2]
            arn = f"arn:aws:sqs:{self._region}:{self._account}:{name}"
        if not self._allows(target["RoleArn"], "sqs:SendMessage", arn):
            LOG.warning("schedule %s: its role may not send to %s", schedule.name, arn)
            arn = target.get("DeadLetterConfig", {}).get("Arn")
            if arn is None:
                return
            sent = {"MessageBody": text}
        sqs_backends[self._account][self._region].send_message(
            arn.rpartition(":")[2], sent["MessageBody"], sent.get("MessageAttributes")
        )


def _following(schedule: Any, after: datetime | None = None) -> datetime | None:
    """The first firing after then, or since the schedule is as it is; None: there is none.

    Raises:
        ValueError: the schedule is of a kind that is not driven here, or its time zone is unknown.
    """
    if ":sqs:" not in schedule.target["Arn"]:
        raise ValueError("the embedded AWS sends to queues alone")
    if schedule.flexible_time_window.get("Mode") != "OFF":
        raise ValueError("the embedded AWS has no flexible windows")
    if schedule.state != "ENABLED":
        return None
    return following(
        schedule.schedule_expression,
        schedule.schedule_expression_timezone,
        datetime.fromtimestamp(schedule.creation_date, UTC),
        after or datetime.fromtimestamp(schedule.last_modified_date, UTC),
    )
