"""The data bucket: inputs and outputs of jobs, and under `longhaul/` what the table cannot hold."""

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
            # No versioning. Each attempt writes its own names, so only `_SUCCESS` is overwritten.
            # The files that a newer output replaces are deleted; versions of them would be stored
            # and paid for without end.
            versioned=False,
            # An attempt's uploads stay pending until its commit. Settle aborts those of a killed
            # attempt; this rule ends what settle and the sweeper missed. It must be longer than any
            # job (7 days) with its retries: a commit needs its uploads until they are completed.
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="AbandonedUploads", abort_incomplete_multipart_upload_after=Duration.days(30)
                ),
                # Requests and lists of pending uploads. A year is longer than a job waits and runs
                # and its row then lives (120 days).
                s3.LifecycleRule(
                    id="OldRequests", prefix=INTERNAL_PREFIX, expiration=Duration.days(365)
                ),
            ],
            # Not RETAIN: a first deployment that fails would leave the bucket behind.
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        acknowledge(
            self,
            "S1",
            "Access logs would cost more than the data of a small installation; "
            "where asked for, CloudTrail has them.",
        )

    def add_work_area(self) -> str:
        """Expire `WORK_PREFIX`, where cluster jobs write before they publish; return its `s3://…/`.

        A job deletes what it wrote; the rule deletes what a killed job left.
        """
        # Longer than any job runs (7 days).
        self.add_lifecycle_rule(
            id="AbandonedWork", prefix=WORK_PREFIX, expiration=Duration.days(10)
        )
        return f"s3://{self.bucket_name}/{WORK_PREFIX}"

    def absolute(self, prefix: str) -> str:
        """`prefix` as `s3://bucket/…/`; without a bucket it is one of this bucket."""
        return prefix if prefix.startswith("s3://") else f"s3://{self.bucket_name}/{prefix}"
