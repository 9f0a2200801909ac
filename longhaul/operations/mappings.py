"""The mappings from a stage's queue to the dispatcher."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from longhaul.settings import Stage

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

ON: Final = "Enabled"


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
        mappings = self.lambda_.list_event_source_mappings(EventSourceArn=arn)[
            "EventSourceMappings"
        ]
        return [
            SourceMapping(
                each["UUID"],
                each["State"],
                each.get("StateTransitionReason", ""),
                each.get("FunctionArn", ""),
                "ReportBatchItemFailures" in each.get("FunctionResponseTypes", []),
            )
            for each in mappings
        ]
