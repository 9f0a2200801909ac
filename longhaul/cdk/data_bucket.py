"""The data bucket: inputs and outputs of jobs, and under `longhaul/` what the table cannot hold."""

from typing import Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from longhaul.cdk.nag import acknowledge
from longhaul.config.settings import Settings
from longhaul.core.places import INTERNAL_PREFIX

WORK_PREFIX: Final = f"{INTERNAL_PREFIX}work/"


class DataBucket(s3.Bucket):
    def __init__(self, scope: Construct, id_: str, *, settings: Settings) -> None:
        key, logs = settings.kms_key, settings.access_log_bucket
        super().__init__(
            scope,
            id_,
            encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=kms.Key.from_key_arn(scope, f"{id_}Key", key) if key else None,
            # One call to KMS for many objects, not one for each.
            bucket_key_enabled=True if key else None,
            server_access_logs_bucket=(
                s3.Bucket.from_bucket_name(scope, f"{id_}Logs", logs) if logs else None
            ),
            server_access_logs_prefix=logs and f"{settings.stack_name}/data/",
            enforce_ssl=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            # Each attempt writes its own names, so only `_SUCCESS` is overwritten. The files that a
            # newer output replaces are deleted: their versions must end, or they are paid for
            # without end. Reads and conditional writes see the newest version alone.
            versioned=settings.versions_days is not None,
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
                *([_old_versions(settings.versions_days)] if settings.versions_days else []),
            ],
            # Not RETAIN: a first deployment that fails would leave the bucket behind.
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        # The bucket outlives the stack, and so does the rule that it speaks TLS alone.
        assert self.policy is not None  # noqa: S101 - for mypy: enforce_ssl makes it
        self.policy.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        if logs is None:
            acknowledge(
                self, "S1", "Access logs need a bucket of their own: access_log_bucket names it."
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

    def publish_events(self) -> None:
        """Publish an event to EventBridge for each object that is created or deleted."""
        # Not `event_bridge_enabled`, which adds a function and a custom resource.
        bucket = self.node.default_child
        assert isinstance(bucket, s3.CfnBucket)  # noqa: S101 - for mypy
        bucket.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(
                event_bridge_enabled=True
            )
        )


def _old_versions(days: int) -> s3.LifecycleRule:
    return s3.LifecycleRule(
        id="OldVersions",
        noncurrent_version_expiration=Duration.days(days),
        # A marker of a deletion that hides no version any more.
        expired_object_delete_marker=True,
    )
