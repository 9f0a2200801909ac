"""What wakes the sweeper: an execution that ended without a settle, and the clock, because that event is best effort."""

from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.undelivered import undelivered_queue

PERIOD: Final = Duration.minutes(5)


class Sweeping(Construct):
    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        sweeper: lambda_.IFunction,
        machine: sfn.StateMachine,
    ) -> None:
        super().__init__(scope, id_)
        # Events that could not be delivered. Losing one delays a repair until the next sweep by the clock; that they get lost is worth knowing.
        self.undelivered = undelivered_queue(self, "the two rules' targets below")
        events.Rule(
            self,
            "ExecutionEnded",
            description="An attempt's execution ended otherwise than well: look whether it was settled",
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
                    # After an hour the sweep by the clock has long seen what this event would have told.
                    max_event_age=Duration.hours(1),
                    retry_attempts=10,
                )
            ],
        )
        events.Rule(
            self,
            "EveryFewMinutes",
            description="Repair what a lost event or a crash left",
            schedule=events.Schedule.rate(PERIOD),
            targets=[
                targets.LambdaFunction(
                    sweeper,
                    dead_letter_queue=self.undelivered,
                    # The next one does the same work: a late one is worth nothing.
                    max_event_age=PERIOD,
                    retry_attempts=1,
                )
            ],
        )
