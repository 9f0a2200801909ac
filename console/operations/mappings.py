"""The mappings from a stage's queue to the dispatcher: their state, and the switch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from longhaul.settings import Stage

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

ON: Final = "Enabled"
OFF: Final = "Disabled"
_TURNING_ON: Final = ("Enabled", "Enabling", "Creating")
_TURNING_OFF: Final = ("Disabled", "Disabling")


@dataclass(frozen=True)
class SourceMapping:
    """One event source mapping. `state` is Lambda's word, such as `Disabling`."""

    uuid: str
    state: str
    reason: str
    function: str
    reports_item_failures: bool


@dataclass(frozen=True)
class Mappings:
    lambda_: Any
    sqs: "SQSClient"

    def of(self, stage: Stage) -> Sequence[SourceMapping]:
        """All mappings that read the stage's queue: one, unless somebody made another."""
        arn = self.sqs.get_queue_attributes(QueueUrl=stage.queue_url, AttributeNames=["QueueArn"])[
            "Attributes"
        ]["QueueArn"]
        found = self.lambda_.list_event_source_mappings(EventSourceArn=arn)["EventSourceMappings"]
        return [
            SourceMapping(
                each["UUID"],
                each["State"],
                each.get("StateTransitionReason", ""),
                each.get("FunctionArn", ""),
                "ReportBatchItemFailures" in each.get("FunctionResponseTypes", []),
            )
            for each in found
        ]

    def switch(self, stage: Stage, *, on: bool) -> bool:
        """Ask for the state; returns whether all mappings of the stage have reached it.

        Lambda takes up to a minute, and refuses a second change meanwhile.
        """
        wanted, turning = (ON, _TURNING_ON) if on else (OFF, _TURNING_OFF)
        mappings = self.of(stage)
        for each in mappings:
            # Another transition has to end first: the next call asks again.
            if each.state not in turning and not each.state.endswith("ing"):
                self.lambda_.update_event_source_mapping(UUID=each.uuid, Enabled=on)
        return all(each.state == wanted for each in mappings)
