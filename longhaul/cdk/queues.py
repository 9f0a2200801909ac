"""The queues: two for each stage, and those for what EventBridge could not deliver.

Receives are not attempts. The dispatcher receives a message again at every hand-over and every
deferral, and counts attempts in the lease row. So SQS's own redrive is a last resort behind the
renewal at 900 receives; the dispatcher, settle and the sweeper send dead letters themselves, with
the reason attached.
"""

from functools import partial

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from longhaul.cdk.nag import acknowledge
from longhaul.core.message import MAX_DEAD_LETTER_BYTES, MAX_JOB_BYTES
from longhaul.core.settings import QUEUE_VISIBILITY_S

# Longer than the dispatcher's timeout (75 s), with room for its response to reach the mapping.
VISIBILITY = Duration.seconds(QUEUE_VISIBILITY_S)
# SQS's maximum; renewal comes at 900.
MAX_RECEIVES = 1000
# SQS's maximum, for both queues. A message that SQS redrives keeps the time at which it was sent.
# Messages are renewed after a week (`renew_age_s`), so people have six days to see it.
RETENTION = Duration.days(14)


class StageQueues(Construct):
    """The jobs queue and the dead-letter queue of one stage."""

    def __init__(self, scope: Construct, id_: str, *, prefix: str) -> None:
        """Make the queues `<prefix>-jobs` and `<prefix>-dead-letters`."""
        super().__init__(scope, id_)
        # Fixed names: the dispatcher finds the stage by its queue's name, so the files of `events/`
        # fit every deployment.
        queue = partial(
            sqs.Queue,
            self,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=RETENTION,
        )
        self.dead_letters = queue(
            "DeadLetters",
            queue_name=f"{prefix}-dead-letters",
            max_message_size_bytes=MAX_DEAD_LETTER_BYTES,
        )
        self.jobs = queue(
            "Jobs",
            queue_name=f"{prefix}-jobs",
            visibility_timeout=VISIBILITY,
            max_message_size_bytes=MAX_JOB_BYTES,
            dead_letter_queue=sqs.DeadLetterQueue(
                queue=self.dead_letters, max_receive_count=MAX_RECEIVES
            ),
        )


def undelivered_queue(scope: Construct, *, of: str) -> sqs.Queue:
    """The queue for what EventBridge could not deliver; `of` says in words what sends to it."""
    queue = sqs.Queue(
        scope,
        "Undelivered",
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=Duration.days(14),
    )
    acknowledge(queue, "SQS3", f"It is a dead-letter queue: that of {of}.")
    return queue
