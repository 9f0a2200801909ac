"""A job run of EMR Serverless: how it is called, and what its end says. Pure.

The driver is not told the id of its job run, so an attempt's run is known by its name, which we choose: whoever looks for it asks the application.
"""

import re

from longhaul.domain.lease import AttemptId

MAX_NAME = 256
"""StartJobRun's limit; a name has at most 31 + 1 + 128 characters of key, 14 of run, 11 of attempt."""

_JOB_RUNS = "/jobruns/named/"
_NAME = re.compile(r"(\S+) (\d+) (\d+)")
# "Job failed, please check complete logs in configured logging destination. ExitCode: 1. Last few exceptions: …": 256 characters at most, so the code comes first.
_EXIT_CODE = re.compile(r"\bExitCode: (\d+)")


def name_of(attempt: AttemptId) -> str:
    """As the state machine formats it."""
    return f"{attempt.key} {attempt.run} {attempt.attempt}"


def attempt_of(name: str) -> AttemptId | None:
    """The attempt of a job run with that name; None for one that somebody started by hand."""
    match = _NAME.fullmatch(name)
    return AttemptId(match[1], int(match[2]), int(match[3])) if match else None


def reference(application_arn: str, attempt: AttemptId) -> str:
    """What stands in the lease row where a Fargate task has its ARN."""
    return f"{application_arn}{_JOB_RUNS}{name_of(attempt)}"


def name_in(task_ref: str) -> str | None:
    """The name of the job run that the row refers to; None when it refers to a Fargate task."""
    _, found, name = task_ref.partition(_JOB_RUNS)
    return name if found else None


def exit_code_in(state_details: str) -> int | None:
    """The driver's exit code; None when it never ran, or EMR does not say."""
    match = _EXIT_CODE.search(state_details)
    return int(match[1]) if match else None
