"""Run an ended job again: under its id if it died or was cancelled, a success as another job.

Decision 0011 says why a success gets another id.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count
from typing import Any, Final

from pydantic import JsonValue

from longhaul.domain import attributes
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.follow_ons import with_stored
from longhaul.domain.lease import Lease, Owed, State, job_key
from longhaul.domain.message import Message, size_problem
from longhaul.domain.policy import parse_request
from longhaul.domain.request import read_request, sent_again
from longhaul.operations.errors import NotRetriableError, NotSentError
from longhaul.operations.handles import UnsentRequest
from longhaul.operations.retry import kept_request, stage_of, why_not
from longhaul.operations.submission import WHOLE, Submission
from longhaul.operations.wait import Awaited
from longhaul.ports import Clock, JobQueue, Leases, Requests, Reruns
from longhaul.settings import RuntimeSettings, Stage
from longhaul.trees import Trees

_PAGE: Final = 25
_MAX_ID: Final = 128
_LONGEST: Final = 112
"""Characters of an id to which `-rerun-` and a number can be added."""
_SUFFIX: Final = re.compile(r"-rerun-\d+$")


@dataclass(frozen=True)
class Rerun:
    """A request that is ready to be sent again.

    Attributes:
        of: The row of the job that is run again.
        stage: Its stage, where the message goes.
        submission: The request as it is sent; its job id is the old one, or that of the new job.
        message: What is sent.
    """

    of: Lease
    stage: Stage
    submission: Submission
    message: Message

    @property
    def is_new_job(self) -> bool:
        return self.submission.job_id != self.of.job_id

    @property
    def awaited(self) -> Awaited:
        """What a wait compares the row with."""
        before = None if self.is_new_job else self.of
        key = job_key(self.stage.name, self.submission.job_id)
        return Awaited(key, self.submission.request.fingerprint(), before)


@dataclass(frozen=True, kw_only=True)
class Rerunner:
    settings: RuntimeSettings
    clock: Clock
    leases: Leases
    trees: Trees
    queue: JobQueue
    requests: Requests
    sent: Reruns

    def root(self, lease: Lease) -> Lease:
        """The row of the job with which the tree began.

        Raises:
            NotRetriableError: it is no longer known, or a job of the tree, or of one that ran it
                again, has not ended.
        """
        root = self.leases.load(lease.root)
        if root is None:
            raise NotRetriableError(
                f"the job with which its tree began, {lease.root.partition('#')[2]}, is no longer "
                "known: submit it again"
            )
        for top in (root, *self._reruns(root)[0]):
            going = None if top.is_mark else self.trees.look_through(top).open
            if going is not None:
                stage, _, job_id = going.partition("#")
                raise NotRetriableError(
                    f"{job_id} (stage {stage}) of the tree of {top.job_id} has not ended: cancel "
                    "the tree, or wait"
                )
        return root

    def plan(
        self,
        lease: Lease,
        *,
        params: Mapping[str, JsonValue],
        size: str | None = None,
        afresh: bool = False,
    ) -> Rerun:
        """The request that runs the job again, checked as the dispatcher does.

        Args:
            lease: Its row.
            params: Parameters in the place of those of its request, or beside them.
            size: The task's size; None for that of its request.
            afresh: Whether it leaves what it has stored.

        Raises:
            NotRetriableError: it or its last rerun has not ended or is not published, no request
                is kept, or its stage is gone.
            InvalidRequestError: with these changes it could never run.
        """
        succeeded = lease.state is State.SUCCEEDED
        if not succeeded and (problem := why_not(lease)):
            raise NotRetriableError(problem)
        if succeeded and Owed.PUBLISH in lease.owed:
            # It could be published after the rerun, and take the place of the newer output.
            raise NotRetriableError("it has succeeded, and its output is not published yet: wait")
        stage = stage_of(lease, self.settings)
        content = kept_request(lease, self.requests)
        document = json.loads(sent_again(content.body, afresh=afresh))
        if params:
            document["params"] = {**document.get("params", {}), **params}
        if size is not None:
            document["size"] = size
        ours = {}
        if succeeded:
            document = self._as_another_job(lease, document)
        else:
            # A body without an id took the id of its message, and the new message has another.
            ours = {attributes.JOB_ID: lease.job_id}
        body = json.dumps(document)
        message = replace(
            content, body=body, attributes=attributes.with_ours(content.attributes, ours)
        )
        request = parse_request(body, self.settings, stage)
        if problem := size_problem(message):
            raise InvalidRequestError([problem])
        job_id = str(document["job_id"]) if succeeded else lease.job_id
        return Rerun(lease, stage, Submission(WHOLE, job_id, body, request), message)

    def send(self, rerun: Rerun) -> str:
        """Send it, and return the message's id. Doing it twice is harmless: it runs once.

        Raises:
            NotRetriableError: it was sent with other changes, and that run has not begun.
            NotSentError: SQS did not take it.
        """
        self._take_place(rerun)
        (answer,) = self.queue.send_batch(rerun.stage.queue_url, [rerun.message])
        if answer.message_id is None:
            unsent = UnsentRequest(json.loads(rerun.message.body), answer.reason)
            raise NotSentError(f"the request was not sent: {answer.reason}", (), [unsent])
        return answer.message_id

    def _take_place(self, rerun: Rerun) -> None:
        """Both would have one id, and the dispatcher would dead-letter the second."""
        before, job_id = None if rerun.is_new_job else rerun.of, rerun.submission.job_id
        is_first = self.sent.take_place(
            job_key(rerun.stage.name, job_id),
            before.run if before else 0,
            rerun.submission.request.fingerprint(),
            self.clock.now(),
            before.cancelled_at if before else None,
        )
        if not is_first:
            raise NotRetriableError(
                f"{job_id} was sent with other changes a moment ago, and that run has not begun: "
                f"wait for it, or stop it first (`longhaul cancel {job_id}`)"
            )

    def reruns(self, lease: Lease) -> list[Lease]:
        """The rows of the jobs that ran this success or a rerun of it again, in their order."""
        of, after = {lease.job_id}, []
        for row in self._reruns(lease)[0]:
            if row.rerun_of in of:
                of.add(row.job_id)
                after.append(row)
        return after

    def _as_another_job(self, lease: Lease, document: Mapping[str, Any]) -> dict[str, Any]:
        """The request of a success under the next free id, without its place in a pipeline."""
        before, job_id = self._reruns(lease)
        if before and not before[-1].state.is_terminal and not before[-1].is_mark:
            raise NotRetriableError(
                f"its rerun {before[-1].job_id} is {before[-1].state.value}: wait, or cancel it"
            )
        if before and Owed.PUBLISH in before[-1].owed:
            raise NotRetriableError(
                f"the output of its rerun {before[-1].job_id} is not published yet: wait"
            )
        request = read_request(json.dumps(document))
        fields = {name: value for name, value in document.items() if name != "lineage"}
        if request.lineage and request.lineage.inputs_ref:
            # The inputs of a join are beside its request, where only its lineage leads.
            stored = self.requests.get_inputs(request.lineage.inputs_ref)
            if stored is None:
                raise NotRetriableError(
                    "the inputs that it joined are no longer kept: rerun its tree (--tree)"
                )
            fields["inputs"] = {**with_stored(request, stored).inputs}
        return fields | {"job_id": job_id, "rerun_of": lease.job_id}

    def _reruns(self, lease: Lease) -> tuple[list[Lease], str]:
        """The reruns of a job that have a row, and the first id that has none."""
        first = _SUFFIX.sub("", lease.job_id) if lease.rerun_of else lease.job_id
        found: list[Lease] = []
        for begin in count(1, _PAGE):
            ids = [rerun_id(first, n) for n in range(begin, begin + _PAGE)]
            rows = self.leases.load_many(job_key(lease.stage, each) for each in ids)
            for each in ids:
                row = rows.get(job_key(lease.stage, each))
                if row is None:
                    return found, each
                found.append(row)
        raise AssertionError("numbers have no end")


def rerun_id(job_id: str, n: int) -> str:
    """The id of the n-th rerun of a success: the same for the same, so a repeat is a duplicate."""
    if len(job_id) > _LONGEST:
        # What is cut off must still tell two ids apart.
        digest = sha256(job_id.encode()).hexdigest()[:12]
        job_id = f"{job_id[: _LONGEST - 13].rstrip('.')}-{digest}"
    return f"{job_id}-rerun-{n}"[:_MAX_ID]
