"""Tenants that share a full stage whose jobs end: when does each tenant's job start?

The dispatcher is the real one, over a strict SQS that gives out visible messages in any order, as
if it knew no groups. Jobs last equally long and succeed; nothing fails.
"""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import heappop, heappush

from longhaul.domain import transitions
from longhaul.domain.lease import State
from simulation.worlds.backlog import Backlog


class Shared(Backlog):
    """A stage with the template's slots, at first all free."""

    def __init__(self, *, job_s: float, seed: int = 0) -> None:
        super().__init__(0, scale=1, order="any", seed=seed)
        self._job = timedelta(seconds=job_s)
        self._ends: list[tuple[datetime, str, str]] = []  # with the key and the execution's ARN
        self.started: dict[str, datetime] = {}  # by job_id
        self._sent = 0
        self._leases = self.wiring.leases
        table = self.wiring.settings.leases_table
        key = {"key": {"S": "slots#main"}, "item": {"S": "slots"}}
        self.aws.dynamodb.delete_item(TableName=table, Key=key)

    def submit(self, tenant: str | None, jobs: int) -> list[str]:
        """Send so many jobs; returns their ids."""
        ids = [f"{tenant}-{self._sent + n}" for n in range(jobs)]
        self._sent += jobs
        bucket = self.wiring.settings.paths.data_bucket
        group = {"MessageGroupId": tenant} if tenant else {}
        for each in ids:
            output = f"s3://{bucket}/out/{each}/"
            body = {"job": "flights_clean", "job_id": each, "output": output}
            self.aws.sqs.send_message(
                QueueUrl=self._queue.url, MessageBody=json.dumps(body), **group
            )
        return ids

    def go_on(self, seconds: float) -> None:
        """Let dispatchers look and jobs end for so long."""
        clock = self.aws.clock
        until = clock.now() + timedelta(seconds=seconds)
        while clock.now() < until:
            shows_at = self._queue.shows_next_at()
            look_at = until
            if shows_at is not None:
                shown = datetime.fromtimestamp(shows_at, until.tzinfo)
                look_at = max(min(self._free_at), shown, clock.now())
            end_at = self._ends[0][0] if self._ends else until
            clock.advance_to(max(clock.now(), min(look_at, end_at, until)))
            if clock.now() >= until:
                return
            if end_at <= look_at:
                self._end(*heappop(self._ends)[1:])
            else:
                self._look_once()

    def _look_once(self) -> None:
        poller = self._free_at.index(min(self._free_at))
        self._free_at[poller] = self.aws.clock.now() + timedelta(seconds=self.look_s)
        known = set(self.aws.stepfunctions.executions)
        self._poll()
        now = self.aws.clock.now()
        for arn in self.aws.stepfunctions.executions.keys() - known:
            told = json.loads(self.aws.stepfunctions.executions[arn].input)
            self.started[told["job_id"]] = now
            heappush(self._ends, (now + self._job, told["key"], arn))

    def _end(self, key: str, arn: str) -> None:
        """The job succeeds, and its message is deleted."""
        row = self._leases.load(key)
        if row is None or row.receive.receipt_handle is None:
            raise AssertionError(f"{key} ends, and its row is {row}")
        number, now = row.attempt.number, self.aws.clock.now()
        ended = replace(row, state=State.SUCCEEDED, settled_attempt=number, settled_at=now)
        self._leases.apply(transitions.settle(row, ended))
        self.aws.stepfunctions.close(self.aws.stepfunctions.executions[arn], "SUCCEEDED")
        self.aws.sqs.delete_message(
            QueueUrl=self._queue.url, ReceiptHandle=row.receive.receipt_handle
        )
