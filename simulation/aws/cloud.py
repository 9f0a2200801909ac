"""The fakes of one world, with one clock and one gate."""

from typing import Any

from simulation.aws.clock import VirtualClock
from simulation.aws.dynamodb.client import FakeDynamoDB
from simulation.aws.ecs.client import FakeEcs
from simulation.aws.emr_serverless.client import FakeEmrServerless
from simulation.aws.glue import FakeGlue
from simulation.aws.notified import FakeEventBuses, FakeSns
from simulation.aws.s3.client import FakeS3
from simulation.aws.secrets import FakeSecretsManager
from simulation.aws.service import Around, Gate, Service
from simulation.aws.sqs.client import FakeSqs
from simulation.aws.stepfunctions.client import FakeStepFunctions


class FakeAws:
    def __init__(self, clock: VirtualClock | None = None, around: Around | None = None) -> None:
        self.clock = clock or VirtualClock()
        self.gate = Gate(around)
        self.dynamodb = FakeDynamoDB(self.gate, self.clock.now)
        self.ecs = FakeEcs(self.gate, self.clock.now)
        self.emr_serverless = FakeEmrServerless(self.gate, self.clock.now)
        self.events = FakeEventBuses(self.gate)
        self.glue = FakeGlue(self.gate)
        self.s3 = FakeS3(self.gate, self.clock.now, self.clock.advance)
        self.secretsmanager = FakeSecretsManager(self.gate)
        self.sns = FakeSns(self.gate)
        self.sqs = FakeSqs(self.gate, self.clock.now)
        self.stepfunctions = FakeStepFunctions(self.gate, self.clock.now)

    def client(self, service_name: str, **_: Any) -> Any:
        """Replaces `boto3.client`."""
        client: Service = getattr(self, attribute_of(service_name))
        return client


def attribute_of(service_name: str) -> str:
    """Where `FakeAws` has the service of that name of boto3."""
    return service_name.replace("-", "_")
