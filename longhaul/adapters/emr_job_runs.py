"""Job runs of our one EMR Serverless application."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from botocore.exceptions import ClientError

from longhaul.domain import job_run
from longhaul.ports import RunningTask, StoppedTask

# In each of these it runs, or will.
_ALIVE: Final = ("SUBMITTED", "QUEUED", "PENDING", "SCHEDULED", "RUNNING")
_ENDING: Final = "CANCELLING"
# It ended, or is ending, since it was listed.
_ENDED: Final = {"ConflictException", "ResourceNotFoundException", "ValidationException"}


class EmrJobRuns:
    """`ports.Tasks`."""

    def __init__(self, client: Any, application_arn: str) -> None:  # noqa: ANN401 - boto3's client, for which there are no stubs here
        self._client = client
        self._application_arn = application_arn
        self._application = application_arn.rpartition("/")[2]

    def running(self) -> Iterator[RunningTask]:
        """Found by their names, one call for each fifty."""
        for summary in self._listed(_ALIVE):
            attempt = job_run.attempt_of(summary.get("name", ""))
            if attempt:
                yield RunningTask(job_run.reference(self._application_arn, attempt), attempt)

    def stop(self, task_arn: str, reason: str) -> StoppedTask:  # noqa: ARG002 - EMR takes no reason
        """Cancel the job run of that name, if it runs. How one ended that is not listed any more would take a search through all that ever ran."""
        name = job_run.name_in(task_arn)
        ours = [each["id"] for each in self._listed((*_ALIVE, _ENDING)) if each.get("name") == name]
        for id_ in ours:
            self._cancel(id_)
        return StoppedTask(is_gone=not ours)

    def _listed(self, states: Sequence[str]) -> Iterator[dict[str, Any]]:
        pages = self._client.get_paginator("list_job_runs").paginate(
            applicationId=self._application, states=list(states)
        )
        for page in pages:
            yield from page["jobRuns"]

    def _cancel(self, id_: str) -> None:
        try:
            self._client.cancel_job_run(applicationId=self._application, jobRunId=id_)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _ENDED:
                raise
