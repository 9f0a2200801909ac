"""The deployment that a command speaks to: a stack, and everything that is found from there."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, NoRegionError
from pydantic import ValidationError

from longhaul.adapters.dynamodb.reads import BATCH_GET
from longhaul.adapters.errors import code_of
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.operations.cancel import Canceller
from longhaul.cli.operations.cloudwatch_logs import CloudWatchLogs
from longhaul.cli.operations.dead_letters import DeadLetterOffice
from longhaul.cli.operations.drain import Drainer
from longhaul.cli.operations.find import Jobs
from longhaul.cli.operations.log_reader import LogReader
from longhaul.cli.operations.mappings import Mappings
from longhaul.cli.operations.retry import Retrier
from longhaul.cli.operations.sqs_dead_letters import SqsDeadLetters
from longhaul.cli.operations.stage_counts import StageCounter
from longhaul.cli.operations.submit import Submitter
from longhaul.cli.operations.wait import Waiter
from longhaul.cli.place import Place, locate
from longhaul.cli.project import default_stack, default_work_dir
from longhaul.local.credentials import FAKE_KEY
from longhaul.settings import VARIABLE, RuntimeSettings, Stage
from longhaul.wiring import Wiring

DESCRIPTION = "Longhaul: "
"""How the description of every stack of Longhaul begins."""

# boto3 would follow variables and profiles of its own accord, to a place that was not announced.
_config: Any = Config  # its declared type lacks the argument
_ONE_PLACE = _config(ignore_configured_endpoint_urls=True)
_PATIENT = Config(
    connect_timeout=5, read_timeout=30, retries={"mode": "standard", "max_attempts": 5}
).merge(_ONE_PLACE)


@dataclass(frozen=True)
class Deployment:
    """The stack, from CloudFormation."""

    name: str
    status: str
    outputs: Mapping[str, str]


class Target:
    """What every command takes. Calls AWS only when something is needed."""

    def __init__(self, place: Place, stack: str | None) -> None:
        self.place = place
        self.stack = stack or default_stack()
        self._named = stack is not None
        key = FAKE_KEY if place.embedded else None
        self.session = boto3.Session(
            profile_name=place.profile,
            region_name=place.region,
            aws_access_key_id=key,
            aws_secret_access_key=key,
        )
        if self.session.region_name is None:
            raise NoRegionError

    def again(self) -> "Target":
        """The same stack, looked up anew. An embedded AWS may have another port since its restart.

        Never another place: where no embedded AWS runs any more, it is not AWS's own turn.
        """
        place = self.place
        if place.embedded:
            found = locate(place.profile, None, os.environ, default_work_dir())
            place = replace(place, endpoint=found.endpoint) if found.embedded else place
        return Target(place, self.stack)

    @property
    def region(self) -> str:
        return str(self.session.region_name)

    def __str__(self) -> str:
        where = self._where() if self.place.endpoint else f"AWS, {self.region}"
        profile = f", profile {self.place.profile}" if self.place.profile else ""
        return f"stack {self.stack} on {where}{profile}"

    def client(self, service: str, config: Config | None = None, **_: Any) -> Any:  # noqa: ANN401 - one of boto3's clients
        """A client of this place; an endpoint that the caller names is ignored."""
        make: Any = self.session.client
        asked = _PATIENT if config is None else config.merge(_ONE_PLACE)
        return make(service, endpoint_url=self.place.endpoint, config=asked)

    @cached_property
    def deployment(self) -> Deployment:
        """The stack.

        Raises:
            CommandError: there is no such stack, or it is not one of Longhaul.
        """
        cloudformation = self.client("cloudformation")
        try:
            (stack,) = cloudformation.describe_stacks(StackName=self.stack)["Stacks"]
        except ClientError as error:
            if code_of(error) != "ValidationError":
                raise
            raise CommandError(self._no_stack(cloudformation), ExitStatus.NOT_FOUND) from error
        outputs = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}
        if "JobsQueueUrl" not in outputs:
            raise CommandError(
                f"stack {self.stack} ({stack['StackStatus']}) has no output JobsQueueUrl: it is no "
                "stack of Longhaul's, or its deployment did not end well",
                ExitStatus.NOT_FOUND,
            )
        return Deployment(stack["StackName"], stack["StackStatus"], outputs)

    def _no_stack(self, cloudformation: Any) -> str:  # noqa: ANN401 - one of boto3's clients
        others = []
        for page in cloudformation.get_paginator("describe_stacks").paginate():
            others += [
                stack["StackName"]
                for stack in page["Stacks"]
                if stack.get("Description", "").startswith(DESCRIPTION)
            ]
        if others:
            return (
                f"no stack {self.stack} on {self._where()}; there is {', '.join(sorted(others))}: "
                "name one with --stack"
            )
        if self.place.embedded:
            return f"no stack {self.stack} on {self._where()}: `longhaul up` deploys it"
        return (
            f"no stack {self.stack} on {self._where()}: deploy it with `make deploy`, "
            "or give --region, --profile or --stack"
        )

    def _where(self) -> str:
        if self.place.embedded:
            return f"the embedded AWS at {self.place.endpoint}"
        return f"{self.place.endpoint}, {self.region}" if self.place.endpoint else self.region

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
            CommandError: as for `deployment`; or another version of Longhaul deployed the stack.
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
                    return RuntimeSettings.model_validate_json(variables[VARIABLE])
                except ValidationError as error:
                    raise CommandError(
                        f"stack {stack} was deployed by another version of Longhaul: "
                        f"use that one, or deploy this ({error.errors()[0]['msg']})"
                    ) from error
        raise CommandError(
            f"no function of stack {stack} knows the settings of Longhaul: deploy it again"
        )

    @cached_property
    def parts(self) -> Wiring:
        return Wiring(self.settings, self.client, most_rows=BATCH_GET)

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.parts.clock, self.parts.leases, self.parts.index)

    @cached_property
    def stage_counter(self) -> StageCounter:
        return StageCounter(self.client("sqs"), self.parts.slots, self.dead_letters)

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
    def retrier(self) -> Retrier:
        return Retrier(self.settings, self.parts.queue, self.parts.requests)

    @cached_property
    def mappings(self) -> Mappings:
        return Mappings(self.client("lambda"), self.client("sqs"))

    def drainer(self, say: Callable[[str], None] = lambda _: None) -> Drainer:
        """Brings the stack to rest, and says each step."""
        parts = self.parts
        return Drainer(
            settings=self.settings,
            clock=parts.clock,
            jobs=self.jobs,
            counter=self.stage_counter,
            slots=parts.slots,
            executions=parts.executions,
            tasks=parts.tasks,
            stepfunctions=self.client("stepfunctions"),
            applications=self.client("emr-serverless") if self.settings.emr_serverless else None,
            say=say,
        )

    @cached_property
    def dead_letters(self) -> DeadLetterOffice:
        return DeadLetterOffice(
            self.parts.clock, SqsDeadLetters(self.client("sqs")), self.parts.queue
        )

    @cached_property
    def logs(self) -> LogReader:
        return LogReader(
            self.parts.clock, CloudWatchLogs(self.client("logs")), self.settings.job_log_group
        )

    def stages(self, name: str | None) -> list[Stage]:
        """The stage of that name, or all.

        Raises:
            CommandError: there is no such stage.
        """
        if name is None:
            return list(self.settings.stages)
        return [self.stage(name)]

    def stage(self, name: str | None) -> Stage:
        """The stage of that name, or the first: where jobs are submitted.

        Raises:
            CommandError: there is no such stage.
        """
        if name is None:
            return self.settings.stages[0]
        try:
            return self.settings.stage(name)
        except LookupError as error:
            raise CommandError(str(error.args[0]), ExitStatus.USAGE) from error


def connect(profile: str | None, region: str | None, stack: str | None) -> Target:
    return Target(locate(profile, region, os.environ, default_work_dir()), stack)
