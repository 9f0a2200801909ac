"""Run an ended job again.

Its stored request is sent once more, and says which run it replaces: the dispatcher starts a new
run under the old key.
"""

from dataclasses import dataclass, replace

from longhaul.domain import attributes
from longhaul.domain.lease import Lease, State
from longhaul.domain.message import Again, Message
from longhaul.domain.request import sent_again
from longhaul.operations.errors import NotRetriableError
from longhaul.ports import JobQueue, Requests
from longhaul.settings import RuntimeSettings, Stage, UnknownStageError


@dataclass(frozen=True)
class Retrier:
    settings: RuntimeSettings
    queue: JobQueue
    requests: Requests

    def retry(self, lease: Lease, *, afresh: bool = False) -> None:
        """Send the job's request again; with `afresh` it leaves what the job has stored.

        Doing it twice is harmless: one message starts the run, the other is its duplicate.

        Raises:
            NotRetriableError: the job has not ended, has succeeded, or left no request; or its
                stage is gone.
        """
        if problem := why_not(lease):
            raise NotRetriableError(problem)
        content = kept_request(lease, self.requests)
        message = again(lease, content, sent_again(content.body, afresh=afresh))
        self.queue.send(stage_of(lease, self.settings).queue_url, message)


def again(lease: Lease, content: Message, body: str, *, only: bool = False) -> Message:
    """The message that starts a new run of an ended job; `only`: nothing follows from it.

    A body without an id took the id of its message, and the new message has another.
    """
    which = str(Again(lease.run, only))
    ours = {attributes.JOB_ID: lease.job_id, attributes.AGAIN: which}
    return replace(content, body=body, attributes=attributes.with_ours(content.attributes, ours))


def kept_request(lease: Lease, requests: Requests) -> Message:
    """The message that asked for a job's run.

    Raises:
        NotRetriableError: the bucket's lifecycle has removed it.
    """
    kept = requests.get_stored(lease.request_ref)
    if kept is None:
        raise NotRetriableError("its request is no longer kept: submit it again")
    return kept


def stage_of(lease: Lease, settings: RuntimeSettings) -> Stage:
    """The stage of a job that shall run again.

    Raises:
        NotRetriableError: a deploy has removed it.
    """
    try:
        return settings.stage(lease.stage)
    except UnknownStageError as error:
        raise NotRetriableError(
            f"its stage {lease.stage} is not deployed any more: deploy it again, or submit its "
            "request to another one"
        ) from error


def why_not(lease: Lease) -> str | None:
    """Why this job cannot be retried; None when it can."""
    if lease.state is State.CANCELLED and not lease.request_ref:  # its message never came
        return "it was cancelled before it began, so no request of it is kept: submit it again"
    if lease.is_refused and not lease.fingerprint:
        return "its message was no request: submit a correct one, under the same id if you like"
    if lease.is_open_mark:
        return "it ends when its message comes: retry it once it is CANCELLED"
    if lease.cancel_requested_at and not lease.state.is_terminal:
        return "it is being cancelled: retry it once it is CANCELLED"
    if lease.state is State.RUNNING:
        return "it is running"
    if lease.state is State.RELEASED:
        return "it is between attempts and will be tried again by itself"
    if lease.state is State.SUCCEEDED:
        return "it has succeeded: `longhaul rerun` runs it again"
    return None
