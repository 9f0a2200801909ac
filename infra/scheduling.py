"""What EventBridge Scheduler sends to the stages' queues: a stage's own schedule, and single starts that people ask for."""

from collections.abc import Mapping, Sequence

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.firing import Schedule
from infra.grants import allow
from infra.settings import StageDeployment, pascal, queue_prefix
from infra.undelivered import undelivered_queue


class Scheduling(Construct):
    """For each stage a role that may send to its queue, and its schedule if it has one."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stack_name: str,
        stages: Sequence[StageDeployment],
        jobs: Mapping[str, sqs.IQueue],
        data_bucket: str,
    ) -> None:
        super().__init__(scope, id_)
        # A firing that could not be delivered is a job that did not start: kept, and an alarm tells.
        self.undelivered = undelivered_queue(self, "the schedules")
        self.roles: dict[str, iam.Role] = {}
        for stage in stages:
            self.roles[stage.name] = role = self._role(stage.name, jobs[stage.name])
            if stage.schedule:
                self._add(stage.name, stack_name, stage.schedule, jobs[stage.name], role, data_bucket)

    def _role(self, stage: str, queue: sqs.IQueue) -> iam.Role:
        # Also without a schedule: a single start, made by hand, needs one.
        role = iam.Role(
            self,
            f"{pascal(stage)}Role",
            # Scheduler itself, but only for schedules of this account.
            assumed_by=iam.ServicePrincipal(
                "scheduler.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            ),
            description=f"How EventBridge Scheduler sends jobs to {stage}",
        )
        allow(role, "SendJobs", ["sqs:SendMessage"], [queue.queue_arn, self.undelivered.queue_arn])
        return role

    def _add(
        self, stage: str, stack_name: str, schedule: Schedule, queue: sqs.IQueue, role: iam.Role, data_bucket: str
    ) -> None:
        scheduler.CfnSchedule(
            self,
            f"{pascal(stage)}Schedule",
            name=queue_prefix(stack_name, stage),
            description=f"A job for {stage}",
            schedule_expression=schedule.expression,
            schedule_expression_timezone=schedule.timezone,
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=queue.queue_arn,
                role_arn=role.role_arn,
                input=Stack.of(self).to_json_string(schedule.body(data_bucket)),
                dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(arn=self.undelivered.queue_arn),
                # Scheduler's maximum: a job late by a day is better than none.
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_event_age_in_seconds=86_400, maximum_retry_attempts=185
                ),
            ),
        )
