"""A stage's jobs queue and its dead-letter queue.

Receives are not attempts: the dispatcher receives a message again for every hand-over and every deferral, and counts attempts in the lease row. So
SQS's own redrive is a last resort behind the renewal at 900 receives, and the dead letters are sent by us, with the reason attached.
"""

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

# The function timeout of the dispatcher (75 s) fits in, with room for the answer to get back to the mapping.
VISIBILITY = Duration.seconds(120)
# The most that SQS takes; renewal comes at 900.
MAX_RECEIVES = 1000
RETENTION = Duration.days(10)
# A message that SQS redrives keeps its first sent time: the dead-letter queue must keep it longer, so that somebody has time to see it.
DEAD_LETTER_RETENTION = Duration.days(14)
MAX_DEAD_LETTER_BYTES = 1_048_576
# A dead letter is the body plus the reason (attribute `longhaul`, at most 8 KiB) plus the producer's attributes: it must always fit.
MAX_JOB_BYTES = MAX_DEAD_LETTER_BYTES - 16 * 1024


class JobQueue(Construct):
    """The two queues of one stage."""

    def __init__(self, scope: Construct, id_: str, *, name: str) -> None:
        """`name` begins the names of both."""
        super().__init__(scope, id_)
        # Named by us: the dispatcher finds the stage by its queue's name, and so the files of `events/` serve every deployment.
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            queue_name=f"{name}-dead-letters",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=DEAD_LETTER_RETENTION,
            max_message_size_bytes=MAX_DEAD_LETTER_BYTES,
        )
        self.jobs = sqs.Queue(
            self,
            "Jobs",
            queue_name=f"{name}-jobs",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            visibility_timeout=VISIBILITY,
            retention_period=RETENTION,
            max_message_size_bytes=MAX_JOB_BYTES,
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=MAX_RECEIVES),
        )
