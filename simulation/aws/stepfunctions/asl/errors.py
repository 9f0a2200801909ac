"""Errors of a state and of an execution."""


class StateError(Exception):
    """A state failed; `error` is the name that Retry and Catch match."""

    def __init__(self, error: str, cause: str) -> None:
        super().__init__(f"{error}: {cause}")
        self.error, self.cause = error, cause


class ExecutionError(StateError):
    """Fails the whole execution: States.Runtime, States.DataLimitExceeded, a full history.

    No Retry or Catch for States.ALL matches these, and the loader accepts none that names them.
    https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html
    """


def runtime_error(cause: str) -> ExecutionError:
    """A path to nothing, or a value of the wrong type.

    It "isn't retriable, and will always cause the execution to fail" (same page).
    """
    return ExecutionError("States.Runtime", cause)
