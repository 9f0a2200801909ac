"""Send what follows a success: the jobs of the next stages, and those of the joins it completes."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, groupby

from aws_lambda_powertools import Logger

from longhaul.core.dead_letter import UNSENDABLE, Reason
from longhaul.core.descent import Emitted
from longhaul.core.errors import InvalidRequestError
from longhaul.core.giving_up import GivingUp, refuse
from longhaul.core.lease import Lease, Receive, emitted_ref, job_key
from longhaul.core.message import Message, follow_on
from longhaul.core.ports import Context
from longhaul.core.request import read_request
from longhaul.core.settings import Stage
from longhaul.core.verdict import shorten
from longhaul.pipelines.follow_ons import (
    FollowOn,
    Joins,
    follow_ons,
    inputs_problem,
    joined,
    replaced,
)

logger = Logger(child=True)


@dataclass(frozen=True, kw_only=True)
class Following:
    """`core.seams.FollowOns`."""

    context: Context
    joins: Joins
    giving_up: GivingUp

    def send(self, lease: Lease) -> Iterator[Lease]:
        emitted, output = None, lease.attempt.output
        if output and output.emitted is not None:
            emitted = self.context.requests.get_emitted(emitted_ref(lease.id))
        sent: Counter[str] = Counter()

        def messages(jobs: Iterable[FollowOn]) -> Iterator[Message]:
            group_id = self.context.requests.get(lease.request_ref).group_id
            for job in jobs:
                sent[job.stage] += 1
                yield follow_on(job.body, lease.ended_at, group_id)

        # Before anything is sent: a job that follows must not come to a join that does not wait
        # for it yet.
        started: list[FollowOn] = []
        for job, inputs in self._jobs_of_complete_joins(lease, emitted):
            if problem := inputs_problem(inputs):
                stage = self.context.settings.stage(job.stage)
                yield from self._refuse(stage, Message(job.body, {}), "incomplete_join", problem)
            else:
                started.append(job)
        # One stage after the other, and a batch at a time: all bodies together may be too much for
        # a function's memory.
        jobs_to_send = chain(follow_ons(lease, emitted, self.context.settings), started)
        for name, jobs in groupby(jobs_to_send, key=lambda job: job.stage):
            stage = self.context.settings.stage_or_removed(name)
            if stage.is_removed:
                yield from self._dead_letter_orphans(lease, stage, messages(jobs))
                continue
            for message, problem in self.context.queue.send_many(stage.queue_url, messages(jobs)):
                why = shorten(f"SQS refuses this job: {problem}")
                yield from self._refuse(stage, message, UNSENDABLE, why)
        logger.info("followed on", extra={"lease": lease.key, "jobs": dict(sent)})

    def _dead_letter_orphans(
        self, lease: Lease, removed: Stage, messages: Iterable[Message]
    ) -> Iterator[Lease]:
        """Dead-letter what the job emitted for a stage that was taken out since, in its own."""
        stage = self.context.settings.stage_or_removed(lease.stage)
        why = (
            f"stage {removed.name} was taken out: submit this request to another, without job_id"
            " and lineage (of a join, lineage.inputs_ref names the object with its inputs)"
        )
        for message in messages:
            if stage.is_removed:
                logger.warning("no queue for a dead letter: both stages were removed")
                continue
            key = job_key(stage.name, json.loads(message.body)["job_id"])
            self._send_now(stage, message, Reason(kind=UNSENDABLE, reason=why, key=key))
            # The stage has no queue for the letter, so the row says only that the job is dead.
            yield from self._refuse(removed, message, UNSENDABLE, why)

    def _refuse(self, stage: Stage, message: Message, kind: str, why: str) -> Iterator[Lease]:
        """End a follow-on that can never start: it must neither stay owed nor be forgotten."""
        key = job_key(stage.name, json.loads(message.body)["job_id"])
        reason = Reason(kind=kind, reason=why, key=key)
        request = None
        with suppress(InvalidRequestError):  # of a join without all its inputs
            request = read_request(message.body, self.context.settings.paths)
        dead = refuse(self.context, stage, message, reason, Receive(""), request=request)
        logger.error("a follow-on cannot start: dead", extra={"lease": key, "class": kind})
        if dead is not None:
            yield dead
        elif not stage.is_removed:  # the row of its id is of another message
            self._send_now(stage, message, reason)

    def _send_now(self, stage: Stage, message: Message, reason: Reason) -> None:
        self.giving_up.send(stage.dead_letter_queue_url, lambda: message, reason)

    def _jobs_of_complete_joins(
        self, lease: Lease, emitted: Emitted | None
    ) -> Iterator[tuple[FollowOn, int]]:
        """The jobs of the joins that wait for nothing more, each with the number of its inputs."""
        for each in replaced(lease, emitted, self.context.settings):
            complete = self.joins.note_success(each, self.context.clock.now())
            if complete is None:
                continue
            opener = self.context.leases.load(each.join.of)
            noted = replace(each.join, lineage=complete.lineage)
            found = joined(noted, complete.outputs, opener, self.context.settings)
            self.context.requests.put_inputs(found.inputs_ref, found.inputs)
            yield found.job, len(found.inputs)
