"""The leases table: the one source of truth of who owns a job."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from longhaul.adapters.dynamodb_indexes import ENDED_INDEX, OPEN_INDEX, ROOT_INDEX


class Leases(Construct):
    """Rows under a job's key; slot counters under `slots#<stage>`; who has come to a join under `join#<stage>#…`."""

    def __init__(self, scope: Construct, id_: str) -> None:
        super().__init__(scope, id_)
        # Not TableV2: nothing here is global, and its AWS::DynamoDB::GlobalTable cannot be deployed to the embedded AWS.
        self.table = dynamodb.Table(
            self,
            "Table",
            partition_key=dynamodb.Attribute(name="key", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="item", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            time_to_live_attribute="ttl",
            # Losing the leases means running what already ran: they outlive the stack.
            removal_policy=RemovalPolicy.RETAIN,
        )
        # Sparse (only rows with something left to do carry `open`) and keys only, so that a progress write never touches the index.
        self.table.add_global_secondary_index(
            index_name=OPEN_INDEX,
            partition_key=dynamodb.Attribute(name=OPEN_INDEX, type=dynamodb.AttributeType.STRING),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
        )
        # Every job of a pipeline, for `longhaul status`. Keys only, and a job's root never changes: written once for each job.
        self.table.add_global_secondary_index(
            index_name=ROOT_INDEX,
            partition_key=dynamodb.Attribute(name=ROOT_INDEX, type=dynamodb.AttributeType.STRING),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
        )
        # What ended lately, for people: written once, when a job ends.
        self.table.add_global_secondary_index(
            index_name=ENDED_INDEX,
            partition_key=dynamodb.Attribute(name=ENDED_INDEX, type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="settled_at", type=dynamodb.AttributeType.NUMBER),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
        )
