"""What starts the sweeper: an execution that ended without a settle, and the clock.

The event of an execution's end is best effort, so the clock must repair what a lost event left.
"""

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from longhaul.cdk.queues import undelivered_queue
from longhaul.config.settings import SWEEP_PERIOD


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
