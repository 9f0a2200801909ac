"""Which deployment a command speaks to: a stack in an account, or the embedded AWS of this machine; and everything found from there."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, NoRegionError
from pydantic import ValidationError

from console.errors import CommandError, ExitCode
from console.output import Output
from functions.wiring import Wiring
from local import running
from local.credentials import FAKE_KEY
from local.running import DEFAULT_WORK_DIR, REGION
from longhaul.adapters.cloudwatch_logs import CloudWatchLogs
from longhaul.adapters.sqs_dead_letters import SqsDeadLetters
from longhaul.cancel import Canceller
from longhaul.dead_letters import DeadLetterOffice
from longhaul.job_logs import LogReader
from longhaul.jobs import Jobs
from longhaul.retry import Retrier
from longhaul.settings import VARIABLE, RuntimeSettings, Stage
from longhaul.submit import Submitter
from longhaul.wait import Waiter

DEFAULT_STACK = "Longhaul"
DESCRIPTION = "Longhaul: "
"""How the description of every stack of ours begins."""

_PATIENT = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "max_attempts": 5})


@dataclass(frozen=True)
class Place:
    """Where AWS is. `endpoint` is None for AWS itself; `embedded`: on this machine, where worthless credentials do."""

    endpoint: str | None
    region: str | None
    profile: str | None
    embedded: bool


def locate(
    profile: str | None, region: str | None, environment: Mapping[str, str], work_dir: Path = DEFAULT_WORK_DIR
) -> Place:
    """Whom to ask: who names a profile or a region means AWS; else AWS_ENDPOINT_URL; else the embedded AWS if one runs; else AWS."""
    endpoint = environment.get("AWS_ENDPOINT_URL") or None
    if endpoint is None and profile is None and region is None:
        found = running.find(work_dir)
        if found is not None:
            return Place(found.endpoint, found.region, None, embedded=True)
    embedded = endpoint is not None and profile is None and _is_this_machine(endpoint)
    if embedded:
        region = region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or REGION
    return Place(endpoint, region, profile, embedded)


def _is_this_machine(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True)
class Deployment:
    """The stack, as CloudFormation tells."""

    name: str
    status: str
    outputs: Mapping[str, str]


class Target:
    """What all commands take. Asks AWS for nothing until something is needed."""

    def __init__(self, place: Place, stack: str | None) -> None:
        self.place = place
        self.stack = stack or DEFAULT_STACK
        self._named = stack is not None
        key = FAKE_KEY if place.embedded else None
        self.session = boto3.Session(
            profile_name=place.profile, region_name=place.region, aws_access_key_id=key, aws_secret_access_key=key
        )
        if self.session.region_name is None:
            raise NoRegionError

    @property
    def region(self) -> str:
        return str(self.session.region_name)

    def __str__(self) -> str:
        where = f"the embedded AWS at {self.place.endpoint}" if self.place.embedded else f"AWS, {self.region}"
        if self.place.endpoint and not self.place.embedded:
            where = f"{self.place.endpoint}, {self.region}"
        profile = f", profile {self.place.profile}" if self.place.profile else ""
        return f"stack {self.stack} on {where}{profile}"

    def client(self, service: str, config: Config | None = None, **_: Any) -> Any:  # noqa: ANN401 - one of boto3's clients
        """A client of this place, whatever endpoint the caller thinks of."""
        make: Any = self.session.client
        return make(service, endpoint_url=self.place.endpoint, config=config or _PATIENT)

    @cached_property
    def deployment(self) -> Deployment:
        """The stack.

        Raises:
            CommandError: there is no such stack, or it is none of ours.
        """
        cloudformation = self.client("cloudformation")
        try:
            (stack,) = cloudformation.describe_stacks(StackName=self.stack)["Stacks"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "ValidationError":
                raise
            raise CommandError(self._no_stack(cloudformation), ExitCode.NOT_FOUND) from error
        outputs = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}
        if "JobsQueueUrl" not in outputs:
            raise CommandError(
                f"stack {self.stack} ({stack['StackStatus']}) has no output JobsQueueUrl: it is no stack of Longhaul's, or its deployment did not end well",
                ExitCode.NOT_FOUND,
            )
        return Deployment(stack["StackName"], stack["StackStatus"], outputs)

    def _no_stack(self, cloudformation: Any) -> str:  # noqa: ANN401 - one of boto3's clients
        others = []
        for page in cloudformation.get_paginator("describe_stacks").paginate():
            others += [
                stack["StackName"] for stack in page["Stacks"] if stack.get("Description", "").startswith(DESCRIPTION)
            ]
        if others:
            return (
                f"no stack {self.stack} on {self._where()}; there is {', '.join(sorted(others))}: name one with --stack"
            )
        if self.place.embedded:
            return f"no stack {self.stack} on {self._where()}: `longhaul up` deploys it"
        return f"no stack {self.stack} on {self._where()}: deploy it with `make deploy`, or give --region, --profile or --stack"

    def _where(self) -> str:
        return f"the embedded AWS at {self.place.endpoint}" if self.place.embedded else self.region

    @cached_property
    def resources(self) -> list[Mapping[str, Any]]:
        """The stack's resources, each with LogicalResourceId, PhysicalResourceId and ResourceType."""
        pages = self.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=self.stack)
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
        """What the stack's functions were told; all are told the same.

        Raises:
            CommandError: as for `deployment`; or another version of Longhaul deployed the stack.
        """
        stack = self.deployment.name
        lambda_ = self.client("lambda")
        for name in sorted(self.physical("AWS::Lambda::Function").values()):
            variables = (
                lambda_.get_function_configuration(FunctionName=name).get("Environment", {}).get("Variables", {})
            )
            if VARIABLE in variables:
                try:
                    return RuntimeSettings.model_validate_json(variables[VARIABLE])
                except ValidationError as error:
                    raise CommandError(
                        f"stack {stack} was deployed by another version of Longhaul: use that one, or deploy this ({error.errors()[0]['msg']})"
                    ) from error
        raise CommandError(f"no function of stack {stack} knows the settings of Longhaul: deploy it again")

    @cached_property
    def parts(self) -> Wiring:
        return Wiring(self.settings, self.client)

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
        return Canceller(self.parts.clock, self.parts.leases, self.parts.finisher)

    @cached_property
    def retrier(self) -> Retrier:
        return Retrier(self.settings, self.parts.queue, self.parts.requests)

    @cached_property
    def dead_letters(self) -> DeadLetterOffice:
        return DeadLetterOffice(self.parts.clock, SqsDeadLetters(self.client("sqs")), self.parts.queue)

    @cached_property
    def logs(self) -> LogReader:
        return LogReader(self.parts.clock, CloudWatchLogs(self.client("logs")), self.settings.job_log_group)

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
            raise CommandError(str(error.args[0]), ExitCode.USAGE) from error


def connect(profile: str | None, region: str | None, stack: str | None) -> Target:
    return Target(locate(profile, region, os.environ), stack)


def say_where(output: Output, target: Target) -> None:
    """Before anything is changed: an embedded AWS that runs, or does not, must not make anyone take one place for the other."""
    output.note(f"→ {target}")
