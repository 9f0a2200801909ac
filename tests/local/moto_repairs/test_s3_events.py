import json
from typing import Any

from moto.events.models import EventsBackend

from longhaul.local.moto_repairs import s3 as s3_repairs
from tests.local.support import Moto

BUCKET = {
    "Type": "AWS::S3::Bucket",
    "Properties": {
        "NotificationConfiguration": {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    },
}


def put_events(moto: Moto) -> list[dict[str, Any]]:
    """The events that are put from now on."""
    events: list[dict[str, Any]] = []
    moto.patches.replace(EventsBackend, "put_events", lambda _, more: events.extend(more))
    return events


def test_an_object_in_a_bucket_of_a_template_is_an_event(moto: Moto, *, repaired: bool) -> None:
    events = put_events(moto)
    if repaired:
        s3_repairs.events(moto.patches)
    moto.client("cloudformation").create_stack(
        StackName="data", TemplateBody=json.dumps({"Resources": {"Data": BUCKET}})
    )
    s3 = moto.client("s3")
    (bucket,) = (each["Name"] for each in s3.list_buckets()["Buckets"])

    etag = s3.put_object(Bucket=bucket, Key="in/a b+ü.wav", Body=b"sound")["ETag"]
    s3.delete_object(Bucket=bucket, Key="in/a b+ü.wav")

    if not repaired:
        assert events == []
        return
    (event,) = events
    assert (event["Source"], event["DetailType"]) == ("aws.s3", "Object Created")
    detail = json.loads(event["Detail"])
    assert detail["bucket"]["name"] == bucket
    assert detail["object"]["key"] == "in/a b+ü.wav"
    assert detail["object"]["etag"] == etag.strip('"')
