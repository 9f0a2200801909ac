"""A template can make schedules of EventBridge Scheduler.

AWS: `AWS::Scheduler::Schedule` makes a schedule, with the attribute `Arn`; its reference is its
name.

Stock moto: CloudFormation does not know the type. The API has schedules, which nothing fires
(`schedule_driver` does).
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from typing import Any, ClassVar

from moto.scheduler.models import Schedule, scheduler_backends

from longhaul.local.moto_repairs.patching import Patches, TemplateResource


def apply(patches: Patches) -> None:
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
