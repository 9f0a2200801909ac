"""Schedules on this machine: rules of EventBridge that have one, and EventBridge Scheduler's.

A schedule is `cron(…)` or `rate(…)` without a flexible window. One of the Scheduler sends a
message: its input to a queue, or what its input says by SQS's SendMessage. What fires is judged by
the schedule's role, as on AWS, and what that may not send goes to the schedule's dead-letter queue.
AWS tries for a day first. Nothing fires that was due while the embedded AWS did not run.
"""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from threading import Event, Thread
from typing import Any, Final

from moto.events.models import events_backends
from moto.scheduler.models import scheduler_backends
from moto.sqs.models import sqs_backends

from longhaul.local.credentials import Allows, allow_all
from longhaul.local.firing import following

LOG = logging.getLogger(__name__)
_LOOK_EVERY_S: Final = 1.0
_SEND_MESSAGE: Final = ":aws-sdk:sqs:sendMessage"


@dataclass(frozen=True)
class _Plan:
    """When something fires; a rate counts from `made_at`, and the first time is after `since`."""

    arn: str
    expression: str
    zone: str
    made_at: datetime
    since: datetime
    fire: Callable[[datetime], None] = field(compare=False)

    def after(self, at: datetime) -> datetime | None:
        return following(self.expression, self.zone, self.made_at, at)


class ScheduleDriver:
    def __init__(
        self,
        *,
        account: str,
        region: str,
        fire_rule: Callable[[Any, datetime], None] = lambda *_: None,
        allows: Allows = allow_all,
    ) -> None:
        """`fire_rule` sends the event of a rule of EventBridge."""
        self._account = account
        self._region = region
        self._allows = allows
        self._fire_rule = fire_rule
        self._started_at = datetime.now(UTC)
        self._closing = Event()
        self._thread: Thread | None = None
        self._next: dict[_Plan, datetime | None] = {}

    def start(self) -> None:
        """Fire what is due from now on."""
        self._started_at = datetime.now(UTC)
        self._thread = Thread(target=self._keep, name="schedules", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def fire_due(self, now: datetime) -> None:
        """Fire what is due at `now`; a schedule begins when it was made or changed."""
        seen: dict[_Plan, datetime | None] = {}
        for plan in self._plans():
            try:
                due = self._next[plan] if plan in self._next else plan.after(plan.since)
                while due is not None and due <= now:
                    self._fire(plan, due)
                    due = plan.after(due)
            except ValueError as error:
                LOG.error("schedule %s does not fire: %s", plan.arn, error)  # noqa: TRY400
                due = None
            seen[plan] = due
        self._next = seen

    def _fire(self, plan: _Plan, due: datetime) -> None:
        try:
            plan.fire(due)
        except ValueError:  # it never could
            raise
        except Exception:
            LOG.exception("schedule %s did not fire at %s", plan.arn, due)

    def _keep(self) -> None:
        while not self._closing.wait(_LOOK_EVERY_S):
            self.fire_due(datetime.now(UTC))

    def _plans(self) -> Iterator[_Plan]:
        bus = events_backends[self._account][self._region].describe_event_bus("default")
        begun = self._started_at
        for rule in list(bus.rules.values()):
            if rule.scheduled_expression and rule.state == "ENABLED":
                fire = partial(self._fire_rule, rule)
                yield _Plan(rule.arn, rule.scheduled_expression, "UTC", begun, begun, fire)
        groups = list(scheduler_backends[self._account][self._region].schedule_groups.values())
        schedules: list[Any] = [each for group in groups for each in group.schedules.values()]
        for each in schedules:
            if each.state == "ENABLED":
                yield _Plan(
                    each.arn,
                    each.schedule_expression,
                    each.schedule_expression_timezone,
                    datetime.fromtimestamp(each.creation_date, UTC),
                    datetime.fromtimestamp(each.last_modified_date, UTC),
                    partial(self._send, each),
                )

    def _send(self, schedule: Any, at: datetime) -> None:
        """Send the message of a schedule.

        Raises:
            ValueError: it is of a kind that is not driven here.
        """
        target = schedule.target
        if ":sqs:" not in target["Arn"] or schedule.flexible_time_window.get("Mode") != "OFF":
            raise ValueError("the embedded AWS sends to queues alone, and has no flexible windows")
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
