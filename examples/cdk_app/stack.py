"""A stack of somebody else's: its own VPC, two functions of its own, and Longhaul between them.

request-report ──► queue ──► Longhaul ──► event bus ──► report-ended ──► bucket of reports
"""

from pathlib import Path
from typing import Final

from longhaul.cdk import Longhaul, Settings, StageDeployment

# isort: split
from aws_cdk import CfnOutput, Environment, Stack  # after `longhaul.cdk`
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

HANDLERS: Final = Path(__file__).with_name("handlers")
STAGE: Final = "reports"


class ReportsStack(Stack):
    @property
    def availability_zones(self) -> list[str]:
        """Named: a look-up would need credentials at synth."""
        return [f"{self.region}{letter}" for letter in "ab"]

    def __init__(self, scope: Construct, id_: str, *, account: str, region: str) -> None:
        super().__init__(scope, id_, env=Environment(account=account, region=region))
        vpc = ec2.Vpc(self, "Vpc", nat_gateways=1)
        longhaul = Longhaul(
            self,
            "Longhaul",
            settings=Settings(stages=(StageDeployment(name=STAGE, slots=2),)),
            vpc=vpc,
            notify={STAGE: events.EventBus.from_event_bus_name(self, "DefaultBus", "default")},
        )
        # `longhaul --stack Reports status` finds it by these.
        longhaul.add_outputs()

        request = self._function("RequestReport", "request_report")
        request.add_environment("QUEUE_URL", longhaul.queue(STAGE).queue_url)
        request.add_environment("DATA_BUCKET", longhaul.data_bucket.bucket_name)
        longhaul.grant_submit(request, STAGE)

        reports = s3.Bucket(self, "Reports", enforce_ssl=True)
        ended = self._function("ReportEnded", "report_ended")
        ended.add_environment("REPORTS_BUCKET", reports.bucket_name)
        reports.grant_put(ended)
        # Keeps the events while the function fails.
        endings = sqs.Queue(self, "Endings", enforce_ssl=True)
        ended.add_event_source(
            event_sources.SqsEventSource(endings, report_batch_item_failures=True)
        )
        events.Rule(
            self,
            "JobEnded",
            event_pattern=events.EventPattern(
                source=["longhaul"],
                detail_type=["Longhaul Job Ended"],
                detail={"stage": [STAGE]},
            ),
            targets=[targets.SqsQueue(endings)],
        )

        cloudwatch.Alarm(
            self,
            "ReportsLost",
            metric=longhaul.metric("JobsDeadLettered", stage=STAGE),
            threshold=1,
            evaluation_periods=6,
            datapoints_to_alarm=1,
        )
        CfnOutput(self, "RequestFunction", value=request.function_name)
        CfnOutput(self, "ReportsBucket", value=reports.bucket_name)

    def _function(self, id_: str, module: str) -> lambda_.Function:
        return lambda_.Function(
            self,
            id_,
            runtime=lambda_.Runtime.PYTHON_3_13,
            handler=f"{module}.handler",
            code=lambda_.Code.from_asset(str(HANDLERS), exclude=["__pycache__"]),
        )
