"""A job run of EMR Serverless: its name, and what its end says. Pure.

A driver does not know the id of its job run, so an attempt's run is found by its name, which we
choose.
"""

import re
from typing import Any

from longhaul.core.engine import Engine
from longhaul.core.lease import AttemptId, Lease
from longhaul.core.verdict import (
    OutcomeClass,
    Verdict,
    by_exit_code,
    says_no_room,
    says_not_to_be_had,
    says_out_of_memory,
    searchable,
)

_JOB_RUNS = "/jobruns/named/"
_NAME = re.compile(r"(\S+) (\d+) (\d+)")
# The text is cut at 256 characters, but the code comes early: "Job failed, please check complete
# logs in configured logging destination. ExitCode: 1. Last few exceptions: …"
_EXIT_CODE = re.compile(r"\bExitCode: (\d{1,9})")


def name_of(attempt: AttemptId) -> str:
    """As the state machine formats it: at most 187 of the 256 characters that StartJobRun takes."""
    return f"{attempt.key} {attempt.run} {attempt.attempt}"


def attempt_of(name: str) -> AttemptId | None:
    """The attempt of a job run with that name; None for one that was started by hand."""
    match = _NAME.fullmatch(name)
    return AttemptId(match[1], int(match[2]), int(match[3])) if match else None


def reference(application_arn: str, attempt: AttemptId) -> str:
    """The value in the row's `task_arn`, where a Fargate task has its ARN."""
    return f"{application_arn}{_JOB_RUNS}{name_of(attempt)}"


def exit_code_in(state_details: str) -> int | None:
    """The driver's exit code; None when it never ran, or EMR has none."""
    match = _EXIT_CODE.search(state_details)
    return int(match[1]) if match else None


def classify(lease: Lease, run: dict[str, Any]) -> Verdict:
    """How a job run of EMR Serverless ended.

    A cancelled one was not cancelled by us. Without an exit code, its driver never started or was
    lost. With one, spark-submit may have failed before our code began: the job's role may not fetch
    it, which is no fault of the job's.
    """
    state, details = str(run.get("State", "")), searchable(str(run.get("StateDetails") or ""))
    said = f"job run {state.lower()}: {details}" if details else f"job run {state.lower()}"
    if state == "CANCELLED":
        return Verdict(OutcomeClass.INTERRUPTED, said)
    code = exit_code_in(details)
    is_placed = lease.attempt.task_arn is not None
    if not is_placed and says_not_to_be_had(details):
        return Verdict(OutcomeClass.REFUSED, said)
    if code is None:
        found_room = is_placed or not says_no_room(details)
        return Verdict(OutcomeClass.INTERRUPTED if found_room else OutcomeClass.NOT_PLACED, said)
    kind = by_exit_code(code)
    if kind is OutcomeClass.FAILED and says_out_of_memory(details):
        kind = OutcomeClass.OUT_OF_MEMORY
    return Verdict(kind, said)


EMR_SERVERLESS = Engine(
    name="emr-serverless",
    task_mark=_JOB_RUNS,
    described_by="JobRunId",
    errors=("EMRServerless.",),
    queues=True,
    log_prefix=None,
    classify=classify,
)
