"""What the stack asks of the construct of every engine."""

from collections.abc import Mapping
from typing import Protocol

from aws_cdk import aws_iam as iam

from longhaul.core.engine import Engine
from longhaul.engines.states import JobStates


class EngineConstruct(Protocol):
    meaning: Engine
    """What it is to functions and tasks."""
    job_roles: Mapping[str, iam.IRole]
    """What a job may do, by its stage."""

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
