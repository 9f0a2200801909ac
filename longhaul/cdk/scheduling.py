"""What EventBridge does: schedules and triggers send jobs, and rules start the sweeper.

S3's event has the key as it is, and EventBridge does not escape the texts that it puts into a
template: a key with a quotation mark could change the request. So whole JSON objects of the event
go into the body, and `longhaul.core.request` puts the path where it belongs.

Sources: "Amazon EventBridge input transformation", "Comparison operators for use in event patterns"
(EventBridge User Guide); "EventBridge event message structure" (S3 User Guide).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from longhaul.cdk.data_bucket import DataBucket
from longhaul.cdk.grants import allow, for_this_account
from longhaul.cdk.queues import StageQueues, undelivered_queue
from longhaul.config.settings import SWEEP_PERIOD
from longhaul.config.stages import StageDeployment, pascal, queue_prefix
from longhaul.config.starts import Trigger


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
            queue, name = queues[stage.name].jobs, pascal(stage.name)
            # Made without a schedule too: a single start, made by hand, needs one.
            role = iam.Role(
                self,
                f"{name}Role",
                assumed_by=for_this_account(self, "scheduler.amazonaws.com"),
                description=f"How EventBridge Scheduler sends jobs to {stage.name}",
            )
            self.roles[stage.name] = role
            allow(
                role,
                "SendJobs",
                ["sqs:SendMessage"],
                [queue.queue_arn, self.undelivered.queue_arn],
            )
            if stage.schedule is None:
                continue
            call = stage.schedule.call(queue.queue_url, data_bucket)
            scheduler.CfnSchedule(
                self,
                f"{name}Schedule",
                name=queue_prefix(stack_name, stage.name),
                description=f"A job for {stage.name}",
                schedule_expression=stage.schedule.expression,
                schedule_expression_timezone=stage.schedule.timezone,
                flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
                target=scheduler.CfnSchedule.TargetProperty(
                    # Not the queue's ARN: that target takes no message attributes.
                    arn=f"arn:{Aws.PARTITION}:scheduler:::aws-sdk:sqs:sendMessage",
                    role_arn=role.role_arn,
                    input=Stack.of(self).to_json_string(call),
                    dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(
                        arn=self.undelivered.queue_arn
                    ),
                    # Scheduler's maximum: a job that is a day late is better than none.
                    retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                        maximum_event_age_in_seconds=86_400, maximum_retry_attempts=185
                    ),
                ),
            )


class Triggers(Construct):
    """For each stage with a trigger a rule, which sends a job to its queue for each object."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stages: Sequence[StageDeployment],
        queues: Mapping[str, StageQueues],
        undelivered: sqs.IQueue,
        data: DataBucket,
    ) -> None:
        """`undelivered` keeps what EventBridge could not send in a day."""
        super().__init__(scope, id_)
        for stage in stages:
            if (trigger := stage.advanced.on_object) is None:
                continue
            if trigger.bucket is None:
                data.publish_events()
            events.Rule(
                self,
                f"{pascal(stage.name)}Objects",
                description=f"A job for {stage.name} for each object",
                event_pattern=_pattern(trigger, data.bucket_name),
                targets=[
                    targets.SqsQueue(
                        queues[stage.name].jobs,
                        message=events.RuleTargetInput.from_object(
                            _body(trigger, data.bucket_name)
                        ),
                        dead_letter_queue=undelivered,
                        max_event_age=Duration.hours(24),
                        retry_attempts=185,
                    )
                ],
            )


class Sweeping(Construct):
    """What starts the sweeper: an execution that ended without a settle, and the clock.

    The event of an execution's end is best effort, so the clock repairs what a lost event left.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        sweeper: lambda_.IFunction,
        machine: sfn.StateMachine,
    ) -> None:
        super().__init__(scope, id_)
        # A lost event only delays a repair until the next sweep by the clock, but people should
        # know that events get lost.
        self.undelivered = undelivered_queue(self, of="the two rules' targets below")
        period = Duration.seconds(SWEEP_PERIOD.total_seconds())
        events.Rule(
            self,
            "ExecutionEnded",
            description=(
                "An attempt's execution ended otherwise than well: look whether it was settled"
            ),
            event_pattern=events.EventPattern(
                source=["aws.states"],
                detail_type=["Step Functions Execution Status Change"],
                detail={
                    "stateMachineArn": [machine.state_machine_arn],
                    "status": ["FAILED", "TIMED_OUT", "ABORTED"],
                },
            ),
            targets=[
                targets.LambdaFunction(
                    sweeper,
                    dead_letter_queue=self.undelivered,
                    # After an hour, sweeps by the clock have found the same.
                    max_event_age=Duration.hours(1),
                    retry_attempts=10,
                )
            ],
        )
        events.Rule(
            self,
            "EveryFewMinutes",
            description="Repair what a lost event or a crash left",
            schedule=events.Schedule.rate(period),
            targets=[
                targets.LambdaFunction(
                    sweeper,
                    dead_letter_queue=self.undelivered,
                    # The next sweep does the same work, so a late one is useless.
                    max_event_age=period,
                    retry_attempts=1,
                )
            ],
        )


def _pattern(trigger: Trigger, data_bucket: str) -> events.EventPattern:
    # One wildcard: two conditions on one field, as prefix and suffix, would be an "or".
    return events.EventPattern(
        source=["aws.s3"],
        detail_type=["Object Created"],
        detail={
            "bucket": {"name": [trigger.bucket or data_bucket]},
            "object": {
                "key": [{"wildcard": f"{trigger.prefix}*{trigger.suffix}"}],
                # A console makes a folder as an empty object, whose job would read all below it.
                # Not `numeric`: it matches no number above 5.0e9, and an object may be larger.
                "size": [{"anything-but": [0]}],
            },
        },
    )


def _body(trigger: Trigger, data_bucket: str) -> dict[str, Any]:
    of = {each: events.EventField.from_path(f"$.detail.{each}") for each in ("bucket", "object")}
    return {**trigger.body(data_bucket), "object": of}
