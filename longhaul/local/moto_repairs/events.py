"""Repairs of EventBridge and its Scheduler."""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from collections.abc import Callable
from typing import Any

from moto.events.models import Rule
from moto.scheduler.models import Schedule, scheduler_backends

from longhaul.local.moto_repairs.patching import Made, Patches


def targets(patches: Patches, send: Callable[[Any, dict[str, Any]], None]) -> None:
    """A rule sends to its targets what its pattern matches.

    AWS: a rule matches events by its pattern, or runs on its schedule. An event that is put to the
    bus leaves a rule without a pattern alone. Targets may be functions. A queue gets an event if
    its policy lets the rule send. Sources: "Rules in Amazon EventBridge" and "Using resource-based
    policies for Amazon EventBridge" (EventBridge User Guide).

    Stock moto: a rule without a pattern gets every event, and a disabled one as well. A call fails
    where a target is a function, and queues get events whatever their policy says.

    `send(rule, event)` sends to all targets of the rule.
    """

    @patches.replacing(Rule, "send_to_targets")
    def send_to_targets(rule: Any, event: dict[str, Any], *_: Any) -> None:
        pattern = rule.event_pattern
        if rule.state == "ENABLED" and pattern.dump() and pattern.matches_event(event):
            send(rule, event)


def scheduler(patches: Patches) -> None:
    """A template can make schedules of EventBridge Scheduler.

    AWS: `AWS::Scheduler::Schedule` makes a schedule, with the attribute `Arn`; its reference is its
    name.

    Stock moto: CloudFormation does not know the type. The API has schedules, which nothing fires
    (`schedule_driver` does).
    """

    def make(name: str, properties: dict[str, Any], account: str, region: str) -> Made:
        group = scheduler_backends[account][region].get_schedule_group(properties.get("GroupName"))
        schedule = Schedule(
            region=region,
            account_id=account,
            group_name=group.name,
            name=properties.get("Name", name),
            description=properties.get("Description"),
            schedule_expression=properties["ScheduleExpression"],
            schedule_expression_timezone=properties.get("ScheduleExpressionTimezone"),
            flexible_time_window=properties["FlexibleTimeWindow"],
            target=properties["Target"],
            state=properties.get("State"),
            kms_key_arn=properties.get("KmsKeyArn"),
            start_date=properties.get("StartDate"),
            end_date=properties.get("EndDate"),
            action_after_completion=None,
        )
        group.add_schedule(schedule)
        return Made("AWS::Scheduler::Schedule", schedule.name, Arn=schedule.arn)

    patches.add_type("AWS::Scheduler::Schedule", make)
