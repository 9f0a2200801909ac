"""Longhaul for programs in Python: submit jobs, wait for them, and read where their output is.

    from longhaul.client import Client

    longhaul = Client(stack="Longhaul")
    job = longhaul.submit({"job": "sql", "output": "s3://…/", "params": {"query": "SELECT 1"}})
    print(longhaul.result(job).files)

The base installation is enough: neither Spark nor Node, nor what the commands need.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import SystemRandom
from typing import Final, TypeVar

import boto3
from botocore.exceptions import ClientError
from pydantic import JsonValue

from longhaul.core.errors import InvalidRequestError, LonghaulError
from longhaul.core.lease import job_key
from longhaul.core.places import DataPath, is_table
from longhaul.core.settings import Stage
from longhaul.operations.errors import (
    AmbiguousJobError,
    ForeignStackError,
    JobCancelledError,
    JobDeadError,
    JobIdConflictError,
    NoSuchJobError,
    NoSuchStackError,
    NoSuchStageError,
    NotRetriableError,
    NotSentError,
    OtherVersionError,
    RetiredStageError,
    UnsentRequest,
    WaitTimeoutError,
    is_gone,
)
from longhaul.operations.look import status_in
from longhaul.operations.named import checked_id
from longhaul.operations.rerun import Rerun
from longhaul.operations.stack import Stack
from longhaul.operations.submit import (
    WHOLE,
    Document,
    Problem,
    Submission,
    SubmitReport,
    group_problem,
    new_ids,
    submissions,
)
from longhaul.operations.view import JobStatus
from longhaul.operations.wait import (
    Awaited,
    Standing,
    SubmittedJob,
    conflicting,
    standing,
)
from longhaul.outputs.publisher import read_manifest

__all__ = [
    "AmbiguousJobError",
    "Client",
    "ForeignStackError",
    "FurtherOutput",
    "InvalidRequestError",
    "JobCancelledError",
    "JobDeadError",
    "JobIdConflictError",
    "JobResult",
    "JobStatus",
    "LonghaulError",
    "NoSuchJobError",
    "NoSuchStackError",
    "NoSuchStageError",
    "NotRetriableError",
    "NotSentError",
    "OtherVersionError",
    "OutputFile",
    "RetiredStageError",
    "SubmittedJob",
    "UnsentRequest",
    "WaitTimeoutError",
]

T = TypeVar("T")

# A refusal, or a part that is gone, is judged by a look at the stack that is no older.
_FRESH_FOR: Final = timedelta(minutes=1)


@dataclass(frozen=True)
class OutputFile:
    """A file of an output.

    Attributes:
        url: `s3://bucket/key`.
        size: In bytes.
        dataset: `.` for the output itself, else the name that it was written under.
    """

    url: str
    size: int
    dataset: str


@dataclass(frozen=True)
class FurtherOutput:
    """An output beside the main one.

    Attributes:
        output: Where it is.
        files: As `JobResult.files`.
    """

    output: str
    files: tuple[OutputFile, ...]


@dataclass(frozen=True)
class JobResult:
    """The end of a job that succeeded.

    Attributes:
        status: How it ended.
        output: Where its output is: `s3://…/`, or `table://DATABASE/NAME`.
        files: The files of the output as its manifest names them now: another job may have added
            some, or replaced them all. None of a table, which has a catalog.
        value: What the job returned, as JSON has it; None also where that was not kept, and
            `status.result_problem` says why.
        rows: The exact numbers of rows that it wrote, by dataset, where they are known.
        metrics: What it measured, by name.
        outputs: Its further outputs, by name.
    """

    status: JobStatus
    output: str
    files: tuple[OutputFile, ...]
    value: JsonValue = None
    rows: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    outputs: Mapping[str, FurtherOutput] = field(default_factory=dict)


class Client:
    """A deployed stack, for a program. One is enough for a process; threads may share it.

    Nothing is looked up before it is needed. Credentials, region and endpoint are those of the
    session, which finds them as every program with boto3 does. Errors of AWS itself are botocore's;
    all others are `LonghaulError`s.
    """

    def __init__(self, stack: str = "Longhaul", *, session: boto3.Session | None = None) -> None:
        """For the stack of that name.

        Args:
            stack: Its name in CloudFormation.
            session: Where it is, and with whose rights. By default boto3's own.

        Raises:
            botocore.exceptions.NoRegionError: The session has no region.
        """
        self._stack = Stack(stack, session or boto3.Session())
        self._looked_at: datetime | None = None

    def __repr__(self) -> str:
        return f"Client(stack={self._stack.stack!r})"

    def submit(
        self,
        request: Mapping[str, JsonValue],
        *,
        stage: str | None = None,
        group: str | None = None,
    ) -> SubmittedJob:
        """Check a request, and send it.

        Args:
            request: The fields of a message's body (docs/reference/requests.md). Without a `job_id`
                it gets one. With one it can be submitted again: the same work runs once.
            stage: Whose queue it goes to; by default the first.
            group: The tenant whose request it is: SQS's message group, for a fair queue.

        Raises:
            InvalidRequestError: It can never run; `problems` says why. Nothing was sent.
            JobIdConflictError: Its job id belongs to another request. Nothing was sent.
            NotSentError: SQS did not take it, in spite of retries.
            NoSuchStackError: There is no such stack, or it is not Longhaul's.
            NoSuchStageError: The stack has no such stage.
            RetiredStageError: Nothing starts in the stage any more.
            OtherVersionError: The stack is of a version that this client cannot read.
        """
        (job,) = self._submit([self._document(WHOLE, request)], stage, group)
        return job

    def submit_many(
        self,
        requests: Iterable[Mapping[str, JsonValue]],
        *,
        stage: str | None = None,
        group: str | None = None,
    ) -> list[SubmittedJob]:
        """Check requests, and send them: ten in a call, and several calls at a time.

        All are checked before any is sent. What SQS refuses for the moment is sent again. Requests
        without a `job_id` get one. Ctrl-C ends it after the calls under way; the KeyboardInterrupt
        has a NotSentError as its cause.

        Args:
            requests: As for `submit`.
            stage: As for `submit`.
            group: As for `submit`.

        Returns:
            The jobs, in the order of their requests.

        Raises:
            NotSentError: Some were not sent; it has the jobs that were, and the other requests.
            LonghaulError: As `submit`. A problem names its request, such as `requests[3]`.
        """
        documents = [
            self._document(f"requests[{n}]", request) for n, request in enumerate(requests)
        ]
        return self._submit(documents, stage, group) if documents else []

    def status(self, job: SubmittedJob | str, *, stage: str | None = None) -> JobStatus:
        """How a job stands.

        Args:
            job: What `submit` returned, or a job id.
            stage: The stage of a job id; needed where several stages know it.

        Raises:
            NoSuchJobError: Nothing is known of a job id: it is still queued, its message was
                invalid, or it was never sent.
            AmbiguousJobError: Several stages have a job of that id.
            JobIdConflictError: The id belonged to another request: this one is a dead letter.
        """
        awaited = self._awaited(job, stage)
        (found,) = self._fresh(lambda stack: stack.waiter.standings_of([awaited]))
        if found.lease is None and isinstance(job, str):
            raise NoSuchJobError(
                f"nothing is known of job {job}: it may still be queued, its message may have been "
                "invalid, or it was never sent"
            )
        return self._status(found)

    def wait(
        self, job: SubmittedJob | str, *, stage: str | None = None, timeout: float | None = None
    ) -> JobStatus:
        """Wait until a job has ended, one way or another: it reads the job's row every second.

        Args:
            job: What `submit` returned, or a job id. An id alone means its latest run, also one
                that has ended; of a job that was not sent it waits for the first.
            stage: As for `status`.
            timeout: Seconds after which it gives up; None waits for as long as it takes.

        Raises:
            WaitTimeoutError: The job has not ended in time. It goes on.
            LonghaulError: As `status`.
        """
        awaited = self._awaited(job, stage)
        last = self._fresh(lambda stack: _last_look(stack, awaited, timeout))
        status = self._status(last)
        if not last.done:
            raise WaitTimeoutError(
                f"job {status.job_id} has not ended within {timeout:g} s: it is {status.state}, "
                "and goes on",
                status,
            )
        return status

    def result(
        self, job: SubmittedJob | str, *, stage: str | None = None, timeout: float | None = None
    ) -> JobResult:
        """Wait until a job has ended, and read where its output is.

        Args:
            job: As for `wait`.
            stage: As for `wait`.
            timeout: As for `wait`.

        Raises:
            JobDeadError: It has ended without success.
            JobCancelledError: It was cancelled.
            LonghaulError: As `wait`.
        """
        status = self.wait(job, stage=stage, timeout=timeout)
        if status.state == "CANCELLED":
            raise JobCancelledError(f"job {status.job_id} was cancelled", status)
        if status.state != "SUCCEEDED" or status.output is None:
            raise JobDeadError(
                f"job {status.job_id} is {status.state}: {status.kind}: {status.error}", status
            )
        return JobResult(
            status,
            status.output,
            self._files(status.output),
            status.result,
            status.rows,
            status.metrics,
            {
                name: FurtherOutput(output, self._files(output))
                for name, output in status.outputs.items()
            },
        )

    def cancel(self, job: SubmittedJob | str, *, stage: str | None = None) -> JobStatus:
        """Cancel what was sent under a job's id until now, and say how it stands then.

        A job that is queued ends when its message comes, one that runs within seconds
        (`CANCELLING`), one between attempts at once. A job that has ended stays as it is.

        Args:
            job: What `submit` returned, or a job id.
            stage: As for `status`.

        Raises:
            NoSuchJobError: Nothing is known of a job id, and the stack has several stages: name
                the one in whose queue it may be.
            AmbiguousJobError: Several stages have a job of that id.
            JobIdConflictError: The id belonged to another request. That one is not cancelled.
        """
        awaited = self._awaited(job, stage)
        if isinstance(job, SubmittedJob):
            self.status(job)  # not the job of another request
        name, _, job_id = awaited.key.partition("#")
        row = self._fresh(lambda stack: stack.canceller.cancel(name, job_id))
        return self._status(standing(awaited, row))

    def rerun(
        self,
        job: SubmittedJob | str,
        *,
        stage: str | None = None,
        params: Mapping[str, JsonValue] | None = None,
        size: str | None = None,
        tree: bool = False,
        afresh: bool = False,
        only: bool = False,
    ) -> SubmittedJob:
        """Run a job that has ended again in its place, with its request or a changed one.

        It starts a new run of its id, and what follows from it runs again in its place, too: also
        the joins behind it, with the outputs of all their members.

        Args:
            job: What `submit` returned, or a job id.
            stage: As for `status`.
            params: Parameters in the place of those of its request, or beside them.
            size: The task's size, in the place of the request's.
            tree: Whether to run again all that began with the first job of its pipeline.
            afresh: Whether it leaves what it has stored in its last run.
            only: Whether what followed from it is left alone.

        Raises:
            NotRetriableError: It, or what it led to, has not ended, or its request is no longer
                kept.
            InvalidRequestError: With these changes it can never run. Nothing was sent.
            NotSentError: SQS did not take it.
            RetiredStageError: Nothing starts in its stage any more.
            LonghaulError: As `status`.
        """
        before = self.status(job, stage=stage)
        key = job_key(before.stage, before.job_id)

        def planned(stack: Stack) -> Rerun:
            row = stack.parts.leases.load(key)
            if row is None:
                raise NoSuchJobError(f"job {before.job_id} is still queued")
            if tree:
                row = stack.rerunner.root(row)
            stack.open_stage(row.stage)
            given = params or {}
            return stack.rerunner.plan(row, params=given, size=size, afresh=afresh, only=only)

        rerun = self._fresh(planned)
        message_id = self._stack.rerunner.send(rerun)
        return SubmittedJob(rerun.submission.job_id, rerun.stage.name, message_id, rerun.awaited)

    def _document(self, position: str, request: Mapping[str, JsonValue]) -> Document | Problem:
        if not isinstance(request, Mapping):
            return Problem(position, f"a request is a mapping, not {type(request).__name__}")
        try:
            return Document(position, json.loads(json.dumps({**request})))
        except (TypeError, ValueError, RecursionError) as error:
            return Problem(position, f"is no JSON: {error}")

    def _submit(
        self, read: Sequence[Document | Problem], stage: str | None, group: str | None
    ) -> list[SubmittedJob]:
        if group is not None and (problem := group_problem(group)):
            raise InvalidRequestError([f"group {problem}"])
        where, sendable, awaited = self._fresh(lambda stack: _checked(stack, read, stage))
        if conflicts := conflicting(awaited, sendable):
            raise JobIdConflictError("; ".join(map(str, conflicts)))
        report = self._stack.submitter.submit(where.queue_url, sendable, group_id=group)
        by_key = {each.key: each for each in awaited}
        message_ids = {id(each.submission): each.message_id for each in report.sent}
        jobs = [
            SubmittedJob(
                each.job_id,
                where.name,
                message_ids[id(each)],
                by_key[job_key(where.name, each.job_id)],
            )
            for each in sendable
            if id(each) in message_ids
        ]
        _require_all_sent(report, jobs)
        return jobs

    def _fresh(self, ask: Callable[[Stack], T]) -> T:
        """What `ask` returns. It is asked again where a deploy since may have changed that."""
        try:
            return ask(self._stack)
        except (InvalidRequestError, NoSuchStageError, RetiredStageError, ClientError) as error:
            if isinstance(error, ClientError) and not is_gone(error):
                raise
            now = self._stack.parts.clock.now()
            if self._looked_at is not None and now - self._looked_at < _FRESH_FOR:
                raise
            self._looked_at = now
            self._stack = Stack(self._stack.stack, self._stack.session)
            return ask(self._stack)

    def _awaited(self, job: SubmittedJob | str, stage: str | None) -> Awaited:
        if isinstance(job, SubmittedJob):
            return job.awaited
        job_id = checked_id(job)
        names = [each.name for each in self._fresh(lambda stack: stack.stages(stage))]
        rows = self._fresh(lambda stack: stack.jobs.find(names, job_id))
        known = [row.stage for row in rows if not row.is_open_mark] or names
        if len(known) == 1:
            return Awaited(job_key(known[0], job_id), None, None)
        there = f"({', '.join(sorted(known))}): name one with stage="
        if rows and not rows[0].is_open_mark:
            raise AmbiguousJobError(f"job {job_id} is in several stages {there}")
        raise NoSuchJobError(
            f"nothing is known of job {job_id}, which may be queued in one of the stages {there}"
        )

    def _status(self, found: Standing) -> JobStatus:
        if found.conflict:
            raise JobIdConflictError(
                f"job_id {found.key.partition('#')[2]!r} belongs to a different request: this one "
                "went to the dead-letter queue"
            )
        return status_in(self._stack, found)

    def _files(self, output: str) -> tuple[OutputFile, ...]:
        if is_table(output):
            return ()
        place = DataPath.prefix_of(output)
        manifest, _ = read_manifest(self._stack.client("s3"), place.bucket, place.key)
        return tuple(
            OutputFile(f"{place}{each.path}", each.size, each.dataset)
            for each in (manifest.files if manifest else ())
        )


def _checked(
    stack: Stack, read: Sequence[Document | Problem], stage: str | None
) -> tuple[Stage, list[Submission], list[Awaited]]:
    """The stage, the requests as they are sent, and what to wait for.

    Raises:
        InvalidRequestError: some can never run.
        NoSuchStageError, RetiredStageError: as `Stack.open_stage`.
    """
    where = stack.open_stage(stage)
    sendable, problems = submissions(
        [each for each in read if isinstance(each, Document)],
        stack.settings,
        where,
        # Of the operating system's: processes that were forked would draw the same numbers.
        new_ids(stack.parts.clock.now(), SystemRandom()),
        is_named=stage is not None,
    )
    problems += [each for each in read if isinstance(each, Problem)]
    if problems:
        raise InvalidRequestError([str(each) for each in problems])
    return where, sendable, stack.waiter.before(where.name, sendable)


def _last_look(stack: Stack, awaited: Awaited, timeout: float | None) -> Standing:
    last = Standing(awaited.key, None, done=False)
    # No unpacking of `*_, last`: that keeps every look of a wait of days.
    for standings in stack.waiter.watch([awaited], math.inf if timeout is None else timeout):
        last = standings[awaited.key]
    return last


def _require_all_sent(report: SubmitReport, jobs: Sequence[SubmittedJob]) -> None:
    """Raises NotSentError if some were not sent; KeyboardInterrupt if that ended it."""
    if not report.unsent and report.stopped_by is None:
        return
    unsent = [
        UnsentRequest(json.loads(each.submission.body), each.reason) for each in report.unsent
    ]
    reasons = sorted({each.reason for each in unsent})
    why = str(report.stopped_by) if report.stopped_by else "; ".join(reasons)
    error = NotSentError(
        f"{len(unsent)} of {len(unsent) + len(jobs)} requests were not sent: {why}", jobs, unsent
    )
    if isinstance(report.stopped_by, Exception):
        raise error from report.stopped_by
    if report.stopped_by is not None:
        raise report.stopped_by from error
    raise error
