"""Run a job again that died or was cancelled: its stored request is sent once more, and the dispatcher starts a new run under the old key."""

from dataclasses import dataclass

from longhaul.domain import attributes
from longhaul.domain.errors import LonghaulError
from longhaul.domain.lease import Lease, State
from longhaul.domain.message import MessageContent
from longhaul.ports import JobQueue, RequestStore
from longhaul.settings import RuntimeSettings


class NotRetriableError(LonghaulError):
    """This job cannot be run again like this; the message says why, and what can be done."""


@dataclass(frozen=True)
class Retrier:
    settings: RuntimeSettings
    queue: JobQueue
    requests: RequestStore

    def retry(self, lease: Lease) -> None:
        """Send the job's request again. Repeating it is harmless: of two messages one starts the run, the other is its duplicate.

        Raises:
            NotRetriableError: the job has not ended, or has succeeded, or left nothing to send.
        """
        if problem := why_not(lease):
            raise NotRetriableError(problem)
        content = self.requests.get(lease.request_ref)
        # The body may name no id; the key was then made of the message's, which the new message does not have.
        ours = {attributes.JOB_ID: lease.job_id}
        again = MessageContent(content.body, attributes.with_ours(content.attributes, ours), content.group_id)
        self.queue.send(self.settings.stage(lease.stage).queue_url, again)


def why_not(lease: Lease) -> str | None:
    """Why this job cannot be retried; None when it can."""
    if lease.is_mark or (lease.state is State.CANCELLED and not lease.request_ref):
        return "it was cancelled before it began, so no request of it is kept: submit it again"
    if lease.state is State.RUNNING:
        return "it is running"
    if lease.state is State.RELEASED:
        return "it is between attempts and will be tried again by itself"
    if lease.state is State.SUCCEEDED:
        return "it has succeeded, and the same work under the same key is a duplicate: to run it again, submit it under another job_id"
    return None
