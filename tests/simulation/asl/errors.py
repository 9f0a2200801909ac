"""What can go wrong with a machine and in it."""


class UnsupportedError(Exception):
    """The definition asks for something that this interpreter does not do, or that Step Functions would not accept. Told when the machine is loaded."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")


class StateError(Exception):
    """A state failed, under the name that Retry and Catch look for."""

    def __init__(self, error: str, cause: str) -> None:
        super().__init__(f"{error}: {cause}")
        self.error, self.cause = error, cause


class ExecutionError(StateError):
    """Fails the whole execution, wherever it happens: States.Runtime, States.DataLimitExceeded and the end of the history.

    No Retry and no Catch for States.ALL sees these, and the loader accepts none that names them.
    https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html
    """


def runtime_error(cause: str) -> ExecutionError:
    """A path that leads nowhere, a value of the wrong type: "isn't retriable, and will always cause the execution to fail" (same page)."""
    return ExecutionError("States.Runtime", cause)
