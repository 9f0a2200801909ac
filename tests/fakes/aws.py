"""All the fakes of one world: one clock, one gate."""

from typing import Any

from tests.fakes.clock import VirtualClock
from tests.fakes.dynamodb import FakeDynamoDB
from tests.fakes.ecs import FakeEcs
from tests.fakes.s3 import FakeS3
from tests.fakes.service import Around, Gate, Service
from tests.fakes.sqs import FakeSqs
from tests.fakes.stepfunctions import FakeStepFunctions


class FakeAws:
    def __init__(self, clock: VirtualClock | None = None, around: Around | None = None) -> None:
        self.clock = clock or VirtualClock()
        self.gate = Gate(around)
        self.dynamodb = FakeDynamoDB(self.gate, self.clock.now)
        self.ecs = FakeEcs(self.gate, self.clock.now)
        self.s3 = FakeS3(self.gate, self.clock.now)
        self.sqs = FakeSqs(self.gate, self.clock.now)
        self.stepfunctions = FakeStepFunctions(self.gate, self.clock.now)

    def client(self, service_name: str, **_: Any) -> Any:
        """In the place of `boto3.client`."""
        client: Service = getattr(self, service_name)
        return client
