import json

import pytest
from botocore.exceptions import ClientError

from longhaul.local.moto_repairs import events as events_repairs
from tests.local.support import Moto

FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:sweep"


def test_a_schedule_gets_no_events_and_a_pattern_those_that_it_matches(
    moto: Moto, *, repaired: bool
) -> None:
    events, sqs = moto.client("events"), moto.client("sqs")
    url = sqs.create_queue(QueueName="ended")["QueueUrl"]
    queue = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    events.put_rule(Name="matching", EventPattern=json.dumps({"source": ["ours"]}))
    events.put_targets(Rule="matching", Targets=[{"Id": "1", "Arn": queue["QueueArn"]}])
    events.put_rule(Name="recurring", ScheduleExpression="rate(5 minutes)")
    events.put_targets(Rule="recurring", Targets=[{"Id": "1", "Arn": FUNCTION}])
    entry = {"Source": "ours", "DetailType": "ended", "Detail": "{}"}

    if not repaired:
        with pytest.raises(ClientError):
            events.put_events(Entries=[entry])
        return
    events_repairs.schedules(moto.patches)
    assert events.put_events(Entries=[entry])["FailedEntryCount"] == 0

    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert json.loads(message["Body"])["source"] == "ours"
