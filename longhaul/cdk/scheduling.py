"""EventBridge Scheduler: each stage's own schedule, and the role for single starts."""

from collections.abc import Mapping, Sequence

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from longhaul.cdk.grants import allow, for_this_account
from longhaul.cdk.queues import StageQueues, undelivered_queue
from longhaul.config.schedule import Schedule
from longhaul.config.stages import StageDeployment, pascal, queue_prefix


class Scheduling(Construct):
    """For each stage a role that may send to its queue, and its schedule if it has one."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stack_name: str,
        stages: Sequence[StageDeployment],
        queues: Mapping[str, StageQueues],
        data_bucket: str,
    ) -> None:
        super().__init__(scope, id_)
        # An undelivered message is a job that did not start: it is kept, and raises an alarm.
        self.undelivered = undelivered_queue(self, of="the schedules and triggers")
        self.roles: dict[str, iam.Role] = {}
        for stage in stages:
            queue = queues[stage.name].jobs
            self.roles[stage.name] = role = self._role(stage=stage.name, queue=queue)
            if stage.schedule:
                self._add(
                    f"{pascal(stage.name)}Schedule",
                    name=queue_prefix(stack_name, stage),
                    description=f"A job for {stage.name}",
                    schedule=stage.schedule,
                    queue=queue,
                    role=role,
                    data_bucket=data_bucket,
                )

    def _role(self, *, stage: str, queue: sqs.IQueue) -> iam.Role:
        # Made without a schedule too: a single start, made by hand, needs one.
        role = iam.Role(
            self,
            f"{pascal(stage)}Role",
            assumed_by=for_this_account(self, "scheduler.amazonaws.com"),
            description=f"How EventBridge Scheduler sends jobs to {stage}",
        )
        allow(role, "SendJobs", ["sqs:SendMessage"], [queue.queue_arn, self.undelivered.queue_arn])
        return role

    def _add(
        self,
        id_: str,
        *,
        name: str,
        description: str,
        schedule: Schedule,
        queue: sqs.IQueue,
        role: iam.Role,
        data_bucket: str,
    ) -> None:
        scheduler.CfnSchedule(
            self,
            id_,
            name=name,
            description=description,
            schedule_expression=schedule.expression,
            schedule_expression_timezone=schedule.timezone,
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                # Not the queue's ARN: that target takes no message attributes.
                arn=f"arn:{Aws.PARTITION}:scheduler:::aws-sdk:sqs:sendMessage",
                role_arn=role.role_arn,
                input=Stack.of(self).to_json_string(schedule.call(queue.queue_url, data_bucket)),
                dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(
                    arn=self.undelivered.queue_arn
                ),
                # Scheduler's maximum: a job that is a day late is better than none.
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_event_age_in_seconds=86_400, maximum_retry_attempts=185
                ),
            ),
        )
