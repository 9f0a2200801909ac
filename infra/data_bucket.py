"""The data bucket: inputs and outputs of jobs, and under `longhaul/` what is too big for the table."""

from typing import Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.nag import acknowledge
from longhaul.domain.paths import INTERNAL_PREFIX

WORK_PREFIX: Final = f"{INTERNAL_PREFIX}work/"


class DataBucket(s3.Bucket):
    def __init__(self, scope: Construct, id_: str) -> None:
        super().__init__(
            scope,
            id_,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            # No versioning: every attempt writes names of its own, so nothing is overwritten but `_SUCCESS`; and replaced files, deleted when a newer
            # output is published, would be kept (and paid for) for ever.
            versioned=False,
            # An attempt's uploads stay pending until its commit. Those of a killed attempt are aborted by settle; what even the sweeper missed ends
            # here. Longer than any job (7 days) with its retries, or a commit could lose uploads that it still owes.
            lifecycle_rules=[
                s3.LifecycleRule(id="AbandonedUploads", abort_incomplete_multipart_upload_after=Duration.days(30)),
                # Requests and pending lists. A year is longer than any job waits and runs, and than its row lives after that (120 days).
                s3.LifecycleRule(id="OldRequests", prefix=INTERNAL_PREFIX, expiration=Duration.days(365)),
            ],
            removal_policy=RemovalPolicy.RETAIN,
        )
        acknowledge(
            self,
            "S1",
            "Access logs would cost more than the data of a small installation; where asked for, CloudTrail has them.",
        )

    def add_work_area(self) -> str:
        """A hidden prefix for what cluster jobs write before they publish; answers its `s3://…/`. A job clears what it wrote, and this what a killed one left."""
        # Longer than any job runs (7 days).
        self.add_lifecycle_rule(id="AbandonedWork", prefix=WORK_PREFIX, expiration=Duration.days(10))
        return f"s3://{self.bucket_name}/{WORK_PREFIX}"
