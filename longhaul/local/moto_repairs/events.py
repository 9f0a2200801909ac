"""Repairs of EventBridge and its Scheduler."""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

from typing import Any, ClassVar

from moto.events.models import Rule
from moto.scheduler.models import Schedule, scheduler_backends

from longhaul.local.event_driver import Allows
from longhaul.local.moto_repairs.patching import Patches, TemplateResource


def permissions(patches: Patches, allows: Allows) -> None:
    """A rule sends to a queue that lets it.

    AWS: EventBridge sends to a queue by its own name, and the queue's policy has to allow it.
    Source: "Using resource-based policies for Amazon EventBridge" (EventBridge User Guide).

    Stock moto: sends whatever the policy says.

    `allows`: whether EventBridge may do something for a rule.
    """
    stock = Rule._send_to_sqs_queue

    def send(rule: Any, name: str, *args: Any, **kwargs: Any) -> None:
        queue = f"arn:aws:sqs:{rule.region_name}:{rule.account_id}:{name}"
        if allows("sqs:SendMessage", queue, rule.arn):
            stock(rule, name, *args, **kwargs)

    patches.replace(Rule, "_send_to_sqs_queue", send)


def schedules(patches: Patches) -> None:
    """A rule with a schedule and no pattern gets no events.

    AWS: a rule matches events by its pattern, or runs on its schedule. An event that is put to the
    bus leaves a rule without a pattern alone. Source: "Rules in Amazon EventBridge" (EventBridge
    User Guide).

    Stock moto: a rule without a pattern gets every event that is put to its bus; where its target
    is a function, as the sweeper's is, the call fails.
    """
    stock = Rule.send_to_targets

    def send_to_targets(rule: Any, *args: Any, **kwargs: Any) -> None:
        if rule.event_pattern.dump():
            stock(rule, *args, **kwargs)

    patches.replace(Rule, "send_to_targets", send_to_targets)


def scheduler(patches: Patches) -> None:
    """A template can make schedules of EventBridge Scheduler.

    AWS: `AWS::Scheduler::Schedule` makes a schedule, with the attribute `Arn`; its reference is its
    name.

    Stock moto: CloudFormation does not know the type. The API has schedules, which nothing fires
    (`schedule_driver` does).
    """
    patches.add_types((TemplateSchedule.TYPE,), TemplateSchedule)


class TemplateSchedule(TemplateResource, Schedule):
    """moto's schedule."""

    TYPE = "AWS::Scheduler::Schedule"
    ATTRIBUTES: ClassVar = {"Arn": "arn"}

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: Any,
        account_id: str,
        region_name: str,
        **_kwargs: Any,
    ) -> "TemplateSchedule":
        properties = cloudformation_json["Properties"]
        group = scheduler_backends[account_id][region_name].get_schedule_group(
            properties.get("GroupName")
        )
        schedule = cls(
            region=region_name,
            account_id=account_id,
            group_name=group.name,
            name=properties.get("Name", resource_name),
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
        return schedule
