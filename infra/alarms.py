"""Alarms on what must stay empty, and on what must keep coming."""

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs
from constructs import Construct


class Alarms(Construct):
    """One alarm for each dead-letter queue, and one for the sweeper."""

    def __init__(self, scope: Construct, id_: str, *, dead_letters: Mapping[str, sqs.IQueue]) -> None:
        super().__init__(scope, id_)
        for name, queue in dead_letters.items():
            cloudwatch.Alarm(
                self,
                f"{name}DeadLetters",
                alarm_description=f"Dead letters of {name}: each says in its attribute `longhaul` why",
                # What is there, not what was sent: redrives are not counted as sent. Queues report nothing while idle: no data is no dead letter.
                metric=queue.metric_approximate_number_of_messages_visible(
                    period=Duration.minutes(1), statistic="Maximum"
                ),
                threshold=0,
                comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
                evaluation_periods=1,
                treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            )
        cloudwatch.Alarm(
            self,
            "SweeperStopped",
            alarm_description="The sweeper has not run: what a crash leaves stays as it is",
            metric=cloudwatch.Metric(
                namespace="Longhaul",
                metric_name="Sweeps",
                dimensions_map={"service": "sweeper"},
                period=Duration.minutes(5),
                statistic="Sum",
            ),
            threshold=1,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            # One run may be late, and the metric with it; four in a row are missing.
            evaluation_periods=4,
            # Silence is exactly what this is about.
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
        )
