"""A job run of EMR Serverless: its name, and what its end says. Pure.

A driver does not know the id of its job run, so an attempt's run is found by its name, which we
choose.
"""

import re

from longhaul.domain.lease import AttemptId

MAX_NAME = 256
"""StartJobRun's limit. A name has at most 160 characters of key, 14 of run, 11 of attempt."""

_JOB_RUNS = "/jobruns/named/"
_NAME = re.compile(r"(\S+) (\d+) (\d+)")
# The text is cut at 256 characters, but the code comes early: "Job failed, please check complete
# logs in configured logging destination. ExitCode: 1. Last few exceptions: …"
_EXIT_CODE = re.compile(r"\bExitCode: (\d{1,9})")


def name_of(attempt: AttemptId) -> str:
    """As the state machine formats it."""
    return f"{attempt.key} {attempt.run} {attempt.attempt}"


def attempt_of(name: str) -> AttemptId | None:
    """The attempt of a job run with that name; None for one that was started by hand."""
    match = _NAME.fullmatch(name)
    return AttemptId(match[1], int(match[2]), int(match[3])) if match else None


def reference(application_arn: str, attempt: AttemptId) -> str:
    """The value in the row's `task_arn`, where a Fargate task has its ARN."""
    return f"{application_arn}{_JOB_RUNS}{name_of(attempt)}"


def name_in(task_ref: str) -> str | None:
    """The name of the job run in a row's `task_arn`; None for a Fargate task."""
    _, found, name = task_ref.partition(_JOB_RUNS)
    return name if found else None


def exit_code_in(state_details: str) -> int | None:
    """The driver's exit code; None when it never ran, or EMR has none."""
    match = _EXIT_CODE.search(state_details)
    return int(match[1]) if match else None
