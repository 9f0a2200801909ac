import json

import pytest
from botocore.exceptions import ClientError

from longhaul.local.moto_repairs import events as events_repairs
from tests.local.support import Moto

FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:sweep"


def test_a_rule_sends_to_its_targets_what_its_pattern_matches(
    moto: Moto, *, repaired: bool
) -> None:
    sent: list[tuple[str, str]] = []
    if repaired:
        events_repairs.targets(
            moto.patches, lambda rule, event: sent.append((rule.name, event["source"]))
        )
    events = moto.client("events")
    for name, source, state in (("matching", "ours", "ENABLED"), ("off", "ours", "DISABLED")):
        events.put_rule(Name=name, EventPattern=json.dumps({"source": [source]}), State=state)
    events.put_rule(Name="recurring", ScheduleExpression="rate(5 minutes)")
    for name in ("matching", "off", "recurring"):
        events.put_targets(Rule=name, Targets=[{"Id": "1", "Arn": FUNCTION}])
    entries = [
        {"Source": source, "DetailType": "ended", "Detail": "{}"} for source in ("ours", "theirs")
    ]

    if not repaired:
        with pytest.raises(ClientError):
            events.put_events(Entries=entries)
        return
    assert events.put_events(Entries=entries)["FailedEntryCount"] == 0
    assert sent == [("matching", "ours")]
