"""A deployed stack, and everything that is found from there."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, Final, Literal

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, NoRegionError
from pydantic import ValidationError

from longhaul.core.aws_errors import code_of
from longhaul.core.settings import VARIABLE, RuntimeSettings, Stage, UnknownStageError
from longhaul.core.store.records import BATCH_GET
from longhaul.operations.backfill import Backfiller
from longhaul.operations.cancel import Canceller
from longhaul.operations.dead_letters import DeadLetterOffice
from longhaul.operations.errors import (
    ForeignStackError,
    NoSuchStackError,
    NoSuchStageError,
    OtherVersionError,
    RetiredStageError,
)
from longhaul.operations.find import Jobs
from longhaul.operations.logs import LogReader
from longhaul.operations.rerun import Rerunner
from longhaul.operations.submit import Submitter
from longhaul.operations.tree import TreeCanceller
from longhaul.operations.wait import Waiter
from longhaul.pipelines.trees import Trees
from longhaul.wiring import Wiring

DESCRIPTION: Final = "Longhaul: "
"""How the description of every stack of Longhaul begins."""

PATIENT: Final = Config(
    connect_timeout=5, read_timeout=30, retries={"mode": "standard", "max_attempts": 5}
)


@dataclass(frozen=True)
class Deployment:
    """The stack, from CloudFormation."""

    name: str
    status: str
    outputs: Mapping[str, str]


class Stack:
    """A stack of that name, where the session's credentials and endpoints lead.

    Calls AWS only when something is needed, and looks everything up once.
    """

    # Settings that this version does not know are those of a newer one, as functions read them.
    unknown_settings: Literal["ignore", "forbid"] = "ignore"

    def __init__(self, name: str, session: boto3.Session) -> None:
        """Raises botocore's NoRegionError for a session without a region."""
        self.stack = name
        self.session = session
        self._lock = Lock()
        if session.region_name is None:
            raise NoRegionError

    @property
    def region(self) -> str:
        return str(self.session.region_name)

    @property
    def where(self) -> str:
        """Where AWS was asked, for messages."""
        return self.region

    def client(self, service: str, config: Config | None = None, **_: Any) -> Any:  # noqa: ANN401 - one of boto3's clients
        """A client of this place; an endpoint that the caller names is ignored."""
        with self._lock:  # a session must not make two at once
            return self._make_client(service, config or PATIENT)

    def _make_client(self, service: str, config: Config) -> Any:  # noqa: ANN401 - one of boto3's clients
        make: Any = self.session.client
        return make(service, config=config)

    @cached_property
    def deployment(self) -> Deployment:
        """The stack.

        Raises:
            NoSuchStackError: there is no such stack, or it is not one of Longhaul.
        """
        cloudformation = self.client("cloudformation")
        try:
            (stack,) = cloudformation.describe_stacks(StackName=self.stack)["Stacks"]
        except ClientError as error:
            if code_of(error) != "ValidationError":
                raise
            others = _stacks(cloudformation)
            there = f"; there is {', '.join(others)}" if others else ""
            raise NoSuchStackError(
                f"no stack {self.stack} on {self.where}{there}", others
            ) from error
        outputs = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}
        if "JobsQueueUrl" not in outputs:
            raise ForeignStackError(
                f"stack {self.stack} ({stack['StackStatus']}) has no output JobsQueueUrl: it is no "
                "stack of Longhaul's, or its deployment did not end well"
            )
        return Deployment(stack["StackName"], stack["StackStatus"], outputs)

    @cached_property
    def resources(self) -> list[Mapping[str, Any]]:
        """The stack's resources: LogicalResourceId, PhysicalResourceId, ResourceType of each."""
        pages = (
            self.client("cloudformation")
            .get_paginator("list_stack_resources")
            .paginate(StackName=self.stack)
        )
        return [each for page in pages for each in page["StackResourceSummaries"]]

    def physical(self, kind: str) -> dict[str, str]:
        """Physical ids of the resources of one type, by logical id."""
        return {
            each["LogicalResourceId"]: each["PhysicalResourceId"]
            for each in self.resources
            if each["ResourceType"] == kind and each.get("PhysicalResourceId")
        }

    @cached_property
    def settings(self) -> RuntimeSettings:
        """The settings that the stack's functions have; all have the same.

        Raises:
            NoSuchStackError: as for `deployment`.
            OtherVersionError: another version of Longhaul deployed the stack.
        """
        stack = self.deployment.name
        lambda_ = self.client("lambda")
        for name in sorted(self.physical("AWS::Lambda::Function").values()):
            variables = (
                lambda_.get_function_configuration(FunctionName=name)
                .get("Environment", {})
                .get("Variables", {})
            )
            if VARIABLE in variables:
                try:
                    return RuntimeSettings.model_validate_json(
                        variables[VARIABLE], extra=self.unknown_settings
                    )
                except ValidationError as error:
                    raise OtherVersionError(
                        f"stack {stack} was deployed by another version of Longhaul: "
                        f"use that one, or deploy this ({error.errors()[0]['msg']})"
                    ) from error
        raise OtherVersionError(
            f"no function of stack {stack} knows the settings of Longhaul: deploy it again"
        )

    @cached_property
    def parts(self) -> Wiring:
        return Wiring(self.settings, self.client, most_rows=BATCH_GET)

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.parts.clock, self.parts.leases)

    @cached_property
    def waiter(self) -> Waiter:
        return Waiter(self.parts.clock, self.parts.leases)

    @cached_property
    def submitter(self) -> Submitter:
        return Submitter(self.parts.clock, self.parts.rng, self.parts.queue)

    @cached_property
    def canceller(self) -> Canceller:
        return Canceller(self.parts.leases, self.parts.finisher)

    @cached_property
    def rerunner(self) -> Rerunner:
        return Rerunner(self.parts, self.trees)

    @cached_property
    def trees(self) -> Trees:
        return Trees(self.settings, self.parts.leases, self.parts.joins)

    @cached_property
    def tree_canceller(self) -> TreeCanceller:
        return TreeCanceller(self.trees, self.canceller, self.parts.backfills)

    @cached_property
    def backfiller(self) -> Backfiller:
        return Backfiller(self.parts.clock, self.waiter, self.parts.backfills, self.submitter)

    @cached_property
    def dead_letters(self) -> DeadLetterOffice:
        return DeadLetterOffice(self.parts.clock, self.parts.queue, self.client("sqs"))

    @cached_property
    def logs(self) -> LogReader:
        return LogReader(self.client("logs"), self.settings.job_log_group)

    def stages(self, name: str | None) -> list[Stage]:
        """The stage of that name, or all.

        Raises:
            NoSuchStageError: there is no such stage.
        """
        return [self.stage(name)] if name else [*self.settings.stages]

    def stage(self, name: str | None) -> Stage:
        """The stage of that name, or the first: where jobs are submitted.

        Raises:
            NoSuchStageError: there is no such stage.
        """
        if name is None:
            return self.settings.stages[0]
        try:
            return self.settings.stage(name)
        except UnknownStageError as error:
            raise NoSuchStageError(str(error.args[0])) from error

    def open_stage(self, name: str | None) -> Stage:
        """The stage of that name, or the first, if jobs may be submitted there.

        Raises:
            NoSuchStageError: there is no such stage.
            RetiredStageError: nothing starts there.
        """
        stage = self.stage(name)
        if stage.retired:
            raise RetiredStageError(
                f"stage {stage.name} is retired: nothing starts there; submit to another stage, or "
                'deploy it without "retired"'
            )
        return stage


def _stacks(cloudformation: Any) -> list[str]:  # noqa: ANN401 - one of boto3's clients
    """The names of the stacks of Longhaul that are there."""
    pages = cloudformation.get_paginator("describe_stacks").paginate()
    return sorted(
        stack["StackName"]
        for page in pages
        for stack in page["Stacks"]
        if stack.get("Description", "").startswith(DESCRIPTION)
    )
