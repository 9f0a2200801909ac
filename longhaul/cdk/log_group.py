"""The log group of every part: CloudFormation deletes it with the stack, and names most."""

from collections.abc import Mapping

from aws_cdk import RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from longhaul.config.settings import LogRetention, Settings

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
    400: logs.RetentionDays.THIRTEEN_MONTHS,
    731: logs.RetentionDays.TWO_YEARS,
    1096: logs.RetentionDays.THREE_YEARS,
    1827: logs.RetentionDays.FIVE_YEARS,
    2557: logs.RetentionDays.SEVEN_YEARS,
    3653: logs.RetentionDays.TEN_YEARS,
}


class LogGroup(logs.LogGroup):
    def __init__(
        self, scope: Construct, id_: str, *, settings: Settings, name: str | None = None
    ) -> None:
        key = settings.kms_key
        super().__init__(
            scope,
            id_,
            log_group_name=name,
            retention=RETENTION[settings.log_retention_days],
            encryption_key=kms.Key.from_key_arn(scope, f"{id_}Key", key) if key else None,
            removal_policy=RemovalPolicy.DESTROY,
        )
