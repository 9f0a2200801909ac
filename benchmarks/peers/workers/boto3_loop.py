"""The plain consumer: a loop over boto3 with a thread that extends the visibility at fixed beats.

As AWS's documentation recommends: long polls, a heartbeat, visibility zero when the work fails.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html
"""

import os
import sys
from threading import Event, Thread
from typing import Any

import boto3
from botocore.exceptions import ClientError

from benchmarks.peers.workers import work

VISIBILITY_S = 60
BEAT_S = 30


def main() -> None:
    sqs = boto3.client("sqs")
    url = os.environ["PEERS_QUEUE"]
    while True:
        found = sqs.receive_message(
            QueueUrl=url, WaitTimeSeconds=20, VisibilityTimeout=VISIBILITY_S
        )
        for message in found.get("Messages", ()):
            handle(sqs, {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}, message)


def handle(sqs: Any, receipt: dict[str, str], message: Any) -> None:  # noqa: ANN401 - boto3's
    """Do the work of one message, and delete it; a failure makes it visible again."""
    done = Event()
    beats = Thread(target=beat, args=(sqs, receipt, done), daemon=True)
    beats.start()
    try:
        work.do(message["Body"])
    except work.WorkError:
        done.set()
        beats.join()
        sqs.change_message_visibility(**receipt, VisibilityTimeout=0)
    else:
        done.set()
        sqs.delete_message(**receipt)


def beat(sqs: Any, receipt: dict[str, str], done: Event) -> None:  # noqa: ANN401 - boto3's
    """Extend the visibility until the work is done."""
    while not done.wait(BEAT_S):
        try:
            sqs.change_message_visibility(**receipt, VisibilityTimeout=VISIBILITY_S)
        except ClientError as error:
            sys.stderr.write(f"{error}\n")  # the work goes on


if __name__ == "__main__":
    main()
