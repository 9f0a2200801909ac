"""The log group of every part: CloudFormation deletes it with the stack, and names most."""

from collections.abc import Mapping

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.settings import LogRetention

RETENTION: Mapping[LogRetention, logs.RetentionDays] = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    5: logs.RetentionDays.FIVE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    731: logs.RetentionDays.TWO_YEARS,
}


class LogGroup(logs.LogGroup):
    def __init__(
        self, scope: Construct, id_: str, *, retention_days: LogRetention, name: str | None = None
    ) -> None:
        super().__init__(
            scope,
            id_,
            log_group_name=name,
            retention=RETENTION[retention_days],
            removal_policy=RemovalPolicy.DESTROY,
        )
