from typing import Any

from moto.awslambda.models import EventSourceMapping, LambdaBackend
from moto.sqs import models

from longhaul.local.moto_repairs import sqs as sqs_repairs
from tests.local.support import Moto


def test_sending_a_message_invokes_nothing(moto: Moto, monkeypatch: Any, *, repaired: bool) -> None:
    if repaired:
        sqs_repairs.trigger(moto.patches)
    invoked: list[str] = []
    monkeypatch.setattr(
        LambdaBackend, "send_sqs_batch", lambda _backend, arn, *_rest: invoked.append(arn)
    )
    backend: Any = models.sqs_backends["123456789012"]["us-east-1"]
    queue = backend.create_queue("jobs")
    mapping = EventSourceMapping(
        {
            "RegionName": "us-east-1",
            "AccountId": "123456789012",
            "FunctionName": "handler",
            "FunctionArn": "arn:handler",
            "EventSourceArn": queue.queue_arn,
        }
    )
    queue.lambda_event_source_mappings["arn:handler"] = mapping

    backend.send_message("jobs", "job")

    assert invoked == ([] if repaired else ["arn:handler"])
