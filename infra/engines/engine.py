"""What the stack asks of every engine."""

from typing import Protocol

from aws_cdk import aws_iam as iam

from infra.engines.states import JobStates


class Engine(Protocol):
    job_role: iam.Role
    """What a job may do."""

    def configure(self, runtime_settings: str) -> None:
        """Take the settings of its jobs.

        Not done by the constructor: the runtime settings name the engine's resources.
        """

    def states(self) -> JobStates:
        """Its states of the machine."""

    def grant_running(self, machine: iam.Role) -> None:
        """Let the state machine run a job and hear of its end."""

    def grant_stopping(self, role: iam.IRole) -> None:
        """Let a function stop a job that its own execution may not have stopped."""

    def grant_finding(self, role: iam.IRole) -> None:
        """Let a function list what runs."""
