"""Run an ended job again in its place: a new run of the same id, whatever the end was."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import JsonValue

from longhaul.core.errors import InvalidRequestError
from longhaul.core.lease import Lease, Owed, State, job_key
from longhaul.core.message import AGAIN, JOB_ID, Again, Message, size_problem, with_ours
from longhaul.core.policy import parse_request
from longhaul.core.settings import Stage
from longhaul.operations.errors import NotRetriableError, NotSentError, UnsentRequest
from longhaul.operations.letter import sent_again
from longhaul.operations.submit import WHOLE, Submission
from longhaul.operations.wait import Awaited
from longhaul.pipelines.trees import Trees
from longhaul.wiring import Wiring

_WHY_NOT: Final = {
    State.RUNNING: "it is running",
    State.RELEASED: "it is between attempts and will be tried again by itself",
    State.SUCCEEDED: "it has succeeded: `longhaul rerun` runs it again",
}


@dataclass(frozen=True)
class Rerun:
    """A request that is ready to be sent again.

    Attributes:
        of: The row of the job that is run again.
        stage: Its stage, where the message goes.
        submission: The request as it is sent.
        message: What is sent.
    """

    of: Lease
    stage: Stage
    submission: Submission
    message: Message

    @property
    def awaited(self) -> Awaited:
        """What a wait compares the row with."""
        key = job_key(self.stage.name, self.submission.job_id)
        return Awaited(key, self.submission.request.fingerprint(), self.of, again=True)


@dataclass(frozen=True)
class Rerunner:
    parts: Wiring
    trees: Trees

    def root(self, lease: Lease) -> Lease:
        """The row of the job with which the tree began.

        Raises:
            NotRetriableError: it is no longer known.
        """
        root = self.parts.leases.load(lease.root)
        if root is None:
            raise NotRetriableError(
                f"the job with which its tree began, {lease.root.partition('#')[2]}, is no longer "
                "known: submit it again"
            )
        return root

    def plan(
        self,
        lease: Lease,
        *,
        params: Mapping[str, JsonValue] | None = None,
        size: str | None = None,
        afresh: bool = False,
        only: bool = False,
    ) -> Rerun:
        """The request that runs the job again, checked as the dispatcher does.

        Args:
            lease: Its row.
            params: Parameters in the place of those of its request, or beside them; if any.
            size: The task's size; None for that of its request.
            afresh: Whether it leaves what it has stored.
            only: Whether what followed from it is left alone.

        Raises:
            NotRetriableError: it, or what it led to, has not ended; no request is kept, or its
                stage is gone.
            InvalidRequestError: with these changes it could never run.
        """
        kept = self._kept_request(lease)
        stage = self.trees.settings.stage_or_removed(lease.stage)
        if stage.is_removed:
            raise NotRetriableError(
                f"its stage {lease.stage} is not deployed any more: deploy it again, or submit its "
                "request to another one"
            )
        document = json.loads(sent_again(kept.body, afresh=afresh))
        if params:
            document["params"] = {**document.get("params", {}), **params}
        if size is not None:
            document["size"] = size
        # A body without an id took the id of its message, and the new message has another.
        ours = {JOB_ID: lease.job_id, AGAIN: str(Again(lease.run, only))}
        attributes = with_ours(kept.attributes, ours)
        message = replace(kept, body=json.dumps(document), attributes=attributes)
        request = parse_request(message.body, self.trees.settings, stage)
        joined = request.lineage.inputs_ref if request.lineage else None
        if joined is not None and self.parts.requests.get_inputs(joined) is None:
            raise NotRetriableError(
                "the inputs that it joined are no longer kept: rerun its tree (--tree)"
            )
        if problem := size_problem(message):
            raise InvalidRequestError([problem])
        return Rerun(lease, stage, Submission(WHOLE, lease.job_id, message.body, request), message)

    def send(self, rerun: Rerun) -> str:
        """Send it, and return the message's id. Doing it twice is harmless: it runs once.

        Raises:
            NotSentError: SQS did not take it.
        """
        (answer,) = self.parts.queue.send_batch(rerun.stage.queue_url, [rerun.message])
        if answer.message_id is None:
            unsent = UnsentRequest(json.loads(rerun.message.body), answer.reason)
            raise NotSentError(f"the request was not sent: {answer.reason}", (), [unsent])
        return answer.message_id

    def _kept_request(self, lease: Lease) -> Message:
        """The message that asked for the run of a job that has ended, with all behind it.

        Raises:
            NotRetriableError: something has not ended, or the bucket's lifecycle has removed it.
        """
        if lease.state is not State.SUCCEEDED and (problem := why_not(lease)):
            raise NotRetriableError(problem)
        if Owed.PUBLISH in lease.owed:
            # It could be published after the new run, and take the place of the newer output.
            raise NotRetriableError("it has succeeded, and its output is not published yet: wait")
        # Two runs of what follows would take turns, and what was queued would not run at all.
        if going := self.trees.look_through(lease).open:
            stage, _, job_id = going.partition("#")
            raise NotRetriableError(
                f"{job_id} (stage {stage}) has not ended: cancel the tree, or wait"
            )
        kept = self.parts.requests.get_stored(lease.request_ref)
        if kept is None:
            raise NotRetriableError("its request is no longer kept: submit it again")
        return kept


def why_not(lease: Lease) -> str | None:
    """Why this job cannot run again; None when it can."""
    if lease.state is State.CANCELLED and not lease.request_ref:  # its message never came
        return "it was cancelled before it began, so no request of it is kept: submit it again"
    if lease.is_refused and not lease.fingerprint:
        return "its message was no request: submit a correct one, under the same id if you like"
    if lease.is_open_mark:
        return "it ends when its message comes: rerun it once it is CANCELLED"
    if lease.cancel_requested_at and not lease.state.is_terminal:
        return "it is being cancelled: rerun it once it is CANCELLED"
    return _WHY_NOT.get(lease.state)


def possible(lease: Lease) -> Literal["cancel", "rerun"] | None:
    """What can be done to a job that did not succeed."""
    if not lease.state.is_terminal and not lease.cancel_requested_at:
        return "cancel"
    return None if why_not(lease) else "rerun"
