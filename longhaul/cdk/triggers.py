"""EventBridge rules that send a job to a stage's queue for each object that is created.

S3's event has the key as it is, and EventBridge does not escape the texts that it puts into a
template: a key with a quotation mark could change the request. So whole JSON objects of the event
go into the body, and `longhaul.domain.request` puts the path where it belongs.

Sources: "Amazon EventBridge input transformation", "Comparison operators for use in event patterns"
(EventBridge User Guide); "EventBridge event message structure" (S3 User Guide).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from longhaul.cdk.data_bucket import DataBucket
from longhaul.cdk.queues import StageQueues
from longhaul.config.stages import StageDeployment, pascal
from longhaul.config.trigger import Trigger


class Triggers(Construct):
    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stages: Sequence[StageDeployment],
        queues: Mapping[str, StageQueues],
        undelivered: sqs.IQueue,
        data: DataBucket,
    ) -> None:
        """`undelivered` keeps what EventBridge could not send in a day."""
        super().__init__(scope, id_)
        for stage in stages:
            if (trigger := stage.advanced.on_object) is None:
                continue
            if trigger.bucket is None:
                data.publish_events()
            events.Rule(
                self,
                f"{pascal(stage.name)}Objects",
                description=f"A job for {stage.name} for each object",
                event_pattern=_pattern(trigger, data.bucket_name),
                targets=[
                    targets.SqsQueue(
                        queues[stage.name].jobs,
                        message=events.RuleTargetInput.from_object(
                            _body(trigger, data.bucket_name)
                        ),
                        dead_letter_queue=undelivered,
                        max_event_age=Duration.hours(24),
                        retry_attempts=185,
                    )
                ],
            )


def _pattern(trigger: Trigger, data_bucket: str) -> events.EventPattern:
    # One wildcard: two conditions on one field, as prefix and suffix, would be an "or".
    return events.EventPattern(
        source=["aws.s3"],
        detail_type=["Object Created"],
        detail={
            "bucket": {"name": [trigger.bucket or data_bucket]},
            "object": {
                "key": [{"wildcard": f"{trigger.prefix}*{trigger.suffix}"}],
                # A console makes a folder as an empty object, whose job would read all below it.
                # Not `numeric`: it matches no number above 5.0e9, and an object may be larger.
                "size": [{"anything-but": [0]}],
            },
        },
    )


def _body(trigger: Trigger, data_bucket: str) -> dict[str, Any]:
    field = events.EventField.from_path
    made = {"bucket": field("$.detail.bucket"), "object": field("$.detail.object")}
    return {**trigger.body(data_bucket), "object": made}
