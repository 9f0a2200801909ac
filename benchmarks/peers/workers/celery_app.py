"""Celery over SQS, as its documentation recommends for tasks that must not be lost.

Late acknowledgement, rejection when the worker is lost, one message at a time, automatic retries
with back-off. The visibility timeout is Celery's own, half an hour.
https://docs.celeryq.dev/en/stable/getting-started/backends-and-brokers/sqs.html
"""

import os
import sys

from celery import Celery

from benchmarks.peers.workers import work

QUEUE = "celery"

app = Celery("peers", broker="sqs://")
app.conf.update(
    broker_transport_options={
        "region": "us-east-1",
        "endpoint_url": os.environ["AWS_ENDPOINT_URL"],
        "predefined_queues": {QUEUE: {"url": os.environ["PEERS_QUEUE"]}},
    },
    task_default_queue=QUEUE,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
)


@app.task(name="do", autoretry_for=(work.WorkError,), retry_backoff=True)  # type: ignore[untyped-decorator]
def do(body: str) -> None:
    work.do(body)


if __name__ == "__main__":
    for line in sys.stdin:
        do.delay(line)
