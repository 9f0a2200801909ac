"""Objects that are created are events, where their bucket says so.

AWS: a bucket with an EventBridge configuration publishes "Object Created" for each new object. The
event's `detail.object` has the key as it is (not URL-encoded) and the `etag` without quotes.
Source: "Using EventBridge" and "EventBridge event message structure" (S3 User Guide).

Stock moto: a bucket that CloudFormation makes has no notification configuration. It writes `eTag`,
and calls the rules' targets itself, without their input transformers.
"""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

from collections.abc import Callable
from typing import Any

from moto.s3 import notifications
from moto.s3.models import FakeBucket

from longhaul.local.moto_repairs.patching import Patches

Publish = Callable[..., None]


def apply(patches: Patches, publish: Publish) -> None:
    """`publish(source, detail_type, detail, resources=…)` sends an event."""
    stock_create = FakeBucket.create_from_cloudformation_json
    stock_send = notifications.send_event

    def create(name: str, template: Any, *args: Any, **kwargs: Any) -> Any:
        bucket = stock_create(name, template, *args, **kwargs)
        wanted = template.get("Properties", {}).get("NotificationConfiguration", {})
        if wanted.get("EventBridgeConfiguration"):
            bucket.set_notification_configuration({"EventBridgeConfiguration": {}})
        return bucket

    def send_event(account_id: str, event_name: Any, bucket: Any, key: Any) -> None:
        configuration = bucket.notification_configuration
        if configuration is None or configuration.event_bridge is None:
            return stock_send(account_id, event_name, bucket, key)
        _, kind, reason = event_name.value.split(":")
        if kind == "ObjectCreated":
            publish(
                "aws.s3",
                "Object Created",
                {
                    "version": "0",
                    "bucket": {"name": bucket.name},
                    "object": {
                        "key": key.name,
                        "size": key.size,
                        "etag": key.etag.strip('"'),
                        "sequencer": "00617F08299329D189",
                    },
                    "reason": reason,
                },
                resources=[bucket.arn],
            )
        return None

    patches.replace(FakeBucket, "create_from_cloudformation_json", staticmethod(create))
    patches.replace(notifications, "send_event", send_event)
