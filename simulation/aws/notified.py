"""SNS topics and EventBridge buses in memory: what a stage's `notify` names.

They keep what was sent. SNS refuses a topic that it does not know. EventBridge takes an event for a
bus that is not there, and nobody gets it (aws/aws-cli#9186).
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from simulation.aws.service import Answer, Gate, RefusedError, Service, known, operation

_MAX_ENTRIES = 10


class FakeSns(Service):
    service = "sns"

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.topics: dict[str, list[str]] = {}  # messages, by ARN

    @operation
    def create_topic(self, *, Name: str) -> Answer:
        arn = f"arn:aws:sns:us-east-1:123456789012:{Name}"
        self.topics.setdefault(arn, [])
        return {"TopicArn": arn}

    @operation
    def publish(
        self,
        *,
        TopicArn: str,
        Message: str,
        MessageGroupId: str | None = None,
        MessageDeduplicationId: str | None = None,
    ) -> Answer:
        sent = known(self.topics, TopicArn, "NotFound", "Topic does not exist", 404)
        if TopicArn.endswith(".fifo") and not (MessageGroupId and MessageDeduplicationId):
            raise RefusedError("InvalidParameter", "The MessageGroupId parameter is required")
        sent.append(Message)
        return {"MessageId": f"{next(self._ids):08}"}


class FakeEventBuses(Service):
    service = "events"

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.events: dict[str, list[Mapping[str, str]]] = defaultdict(list)  # by the bus's ARN
        self.entry_error: str | None = None  # the code with which the next entry fails alone

    @operation
    def put_events(self, *, Entries: Sequence[Mapping[str, str]]) -> Answer:
        if not 1 <= len(Entries) <= _MAX_ENTRIES:
            raise RefusedError("ValidationException", "1 to 10 entries")
        answers = [self._put(entry) for entry in Entries]
        failed = sum("ErrorCode" in answer for answer in answers)
        return {"FailedEntryCount": failed, "Entries": answers}

    def _put(self, entry: Mapping[str, str]) -> Answer:
        code, self.entry_error = self.entry_error, None
        if not isinstance(json.loads(entry["Detail"]), dict):
            code = "MalformedDetail"
        if code is not None:
            return {"ErrorCode": code, "ErrorMessage": "said so"}
        self.events[entry["EventBusName"]].append(entry)
        return {"EventId": f"{next(self._ids):08}"}
