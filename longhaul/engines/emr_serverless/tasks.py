"""Running jobs: job runs of our EMR Serverless application."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from botocore.exceptions import ClientError

from longhaul.core.aws_errors import code_of
from longhaul.core.lease import AttemptId
from longhaul.core.ports import RunningTask
from longhaul.core.verdict import StoppedTask
from longhaul.engines.emr_serverless.ends import attempt_of, name_of, reference

# States of a job run that runs, or will run.
_ALIVE: Final = ("SUBMITTED", "QUEUED", "PENDING", "SCHEDULED", "RUNNING")
_ENDING: Final = "CANCELLING"
# Errors of a cancel when the job run ended after it was listed.
_ENDED: Final = {"ConflictException", "ResourceNotFoundException", "ValidationException"}


class EmrJobRuns:
    """`ports.Tasks` on EMR Serverless."""

    def __init__(self, client: Any, application_arn: str) -> None:  # noqa: ANN401 - no stubs for this client
        self._client = client
        self._application_arn = application_arn
        self._application = application_arn.rpartition("/")[2]

    def running(self) -> Iterator[RunningTask]:
        """Found by their names; fifty in one call."""
        for summary in self._listed(_ALIVE):
            attempt = attempt_of(summary.get("name", ""))
            if attempt:
                yield RunningTask(reference(self._application_arn, attempt), attempt)

    def stop(self, task_arn: str, attempt: AttemptId, reason: str) -> StoppedTask:  # noqa: ARG002 - EMR takes no reason, and the attempt has a name
        """Cancel the attempt's job run, if it runs.

        How an ended one went is not looked up: that would search all that ever ran.
        """
        name = name_of(attempt)
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
            if code_of(error) not in _ENDED:
                raise
