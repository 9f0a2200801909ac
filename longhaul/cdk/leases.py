"""The leases table: the one source of truth of who owns a job."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from longhaul.core.store.table import INDEXES, PARTITION_KEY, SORT_KEY, TTL


class Leases(Construct):
    """Rows under a job's key, slot counters under `slots#<stage>`, joins under `join#<stage>#…`."""

    def __init__(self, scope: Construct, id_: str) -> None:
        super().__init__(scope, id_)
        # Not TableV2: nothing here is global, and its AWS::DynamoDB::GlobalTable cannot be deployed
        # to the embedded AWS.
        self.table = dynamodb.Table(
            self,
            "Table",
            partition_key=_string(PARTITION_KEY),
            sort_key=_string(SORT_KEY),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            time_to_live_attribute=TTL,
            # Losing the leases means running what already ran: they outlive the stack, and no one
            # deletes them by a slip. A first deployment that fails leaves an empty table behind:
            # to delete it, its roll-back would need the protection off.
            deletion_protection=True,
            removal_policy=RemovalPolicy.RETAIN,
        )
        for index in INDEXES:
            self.table.add_global_secondary_index(
                index_name=index.name,
                partition_key=_string(index.name),
                sort_key=dynamodb.Attribute(name=index.sort_key, type=dynamodb.AttributeType.NUMBER)
                if index.sort_key
                else None,
                projection_type=dynamodb.ProjectionType.KEYS_ONLY,
            )


def _string(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
