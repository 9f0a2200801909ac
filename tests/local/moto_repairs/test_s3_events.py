import json
from typing import Any

from longhaul.local.moto_repairs import s3 as s3_repairs
from tests.local.support import Moto

BUCKET = {
    "Type": "AWS::S3::Bucket",
    "Properties": {
        "NotificationConfiguration": {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    },
}


def test_an_object_in_a_bucket_of_a_template_is_an_event(moto: Moto, *, repaired: bool) -> None:
    events: list[tuple[Any, ...]] = []
    if repaired:
        s3_repairs.events(moto.patches, lambda *event, **more: events.append((*event, more)))
    moto.client("cloudformation").create_stack(
        StackName="data", TemplateBody=json.dumps({"Resources": {"Data": BUCKET}})
    )
    s3 = moto.client("s3")
    (bucket,) = (each["Name"] for each in s3.list_buckets()["Buckets"])

    etag = s3.put_object(Bucket=bucket, Key="in/a b+ü.wav", Body=b"sound")["ETag"]
    s3.delete_object(Bucket=bucket, Key="in/a b+ü.wav")

    seen = [
        (source, kind, detail["bucket"]["name"], detail["object"]["key"], detail["object"]["etag"])
        for source, kind, detail, _ in events
    ]
    created = ("aws.s3", "Object Created", bucket, "in/a b+ü.wav", etag.strip('"'))
    assert seen == ([created] if repaired else [])


def test_a_bucket_that_publishes_no_events_stays_silent(moto: Moto) -> None:
    events: list[Any] = []
    s3_repairs.events(moto.patches, lambda *event, **_: events.append(event))
    s3 = moto.client("s3")
    s3.create_bucket(Bucket="quiet")

    s3.put_object(Bucket="quiet", Key="x", Body=b"")

    assert events == []
