"""What may be set about a deployment: one typed, frozen value, made from the CDK context and validated once.

The key `longhaul` of `cdk.json` holds the usual settings; `-c longhaul='{…}'` or `CDK_CONTEXT_JSON` override single ones (objects merge, lists and
scalars replace). Imports no CDK, so that a wrong setting is refused before Node starts.
"""

import json
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, Field, JsonValue, ValidationError, model_validator
from pydantic_core import ErrorDetails

from infra.emr_settings import EmrDeployment
from infra.firing import Schedule
from longhaul.settings import Architecture, LeaseSettings, Model, SizeName, StageSettings

CONTEXT_KEY = "longhaul"

FARGATE_MEMORY_MIB: Mapping[int, Sequence[int]] = {
    256: (512, 1024, 2048),
    512: range(1024, 4096 + 1, 1024),
    1024: range(2048, 8192 + 1, 1024),
    2048: range(4096, 16_384 + 1, 1024),
    4096: range(8192, 30_720 + 1, 1024),
    8192: range(16_384, 61_440 + 1, 4096),
    16_384: range(32_768, 122_880 + 1, 8192),
    32_768: (61_440, 122_880, 249_856),
}
"""CPU units (1024 = one vCPU) to the memory that Fargate sells with them, from "Amazon ECS task definition parameters for Fargate"."""

FARGATE_FREE_DISK_GIB = 20
"""Every Fargate task has this much; a size may ask for 21 to 200 GiB instead, never for 20 explicitly."""

MAX_QUEUE_NAME = 80

LogRetention = Literal[1, 3, 5, 7, 14, 30, 60, 90, 180, 365, 731]
BucketName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]

_FOLDERS = r"([A-Za-z0-9_-][A-Za-z0-9._=-]*/)"
# In a bucket that is named, or else in the data bucket. Ends with a slash: `jobs` would allow `jobs-of-others` as well.
JobPrefix = Annotated[str, Field(pattern=rf"^(s3://[a-z0-9][a-z0-9.-]{{1,61}}[a-z0-9]/{_FOLDERS}*|{_FOLDERS}+)$")]


class SettingsError(ValueError):
    """The context does not hold valid settings; the message names each wrong one, why it is wrong, and what is allowed."""


class Size(Model):
    """What one Fargate task of this size gets."""

    cpu: int
    memory_mib: int
    disk_gib: int = Field(default=FARGATE_FREE_DISK_GIB, ge=FARGATE_FREE_DISK_GIB, le=200)

    @model_validator(mode="after")
    def _sold_by_fargate(self) -> "Size":
        memory = FARGATE_MEMORY_MIB.get(self.cpu)
        if memory is None:
            raise ValueError(
                f"cpu {self.cpu} is not sold by Fargate; allowed: {', '.join(map(str, FARGATE_MEMORY_MIB))}"
            )
        if self.memory_mib not in memory:
            raise ValueError(
                f"memory_mib {self.memory_mib} is not sold by Fargate with cpu {self.cpu}; allowed: {_choice(memory)}"
            )
        return self


def _choice(memory: Sequence[int]) -> str:
    if isinstance(memory, range):
        return f"{memory.start} to {memory[-1]} in steps of {memory.step}"
    return ", ".join(map(str, memory))


class Sizes(Model):
    """The named sizes. Each has a task definition of its own; an attempt that ran out of memory moves to the next."""

    small: Size = Size(cpu=1024, memory_mib=4096, disk_gib=30)
    medium: Size = Size(cpu=4096, memory_mib=16_384, disk_gib=60)
    large: Size = Size(cpu=8192, memory_mib=32_768, disk_gib=120)
    xlarge: Size = Size(cpu=16_384, memory_mib=98_304, disk_gib=200)

    @model_validator(mode="after")
    def _ascending(self) -> "Sizes":
        ladder = list(self.by_name().items())
        for (name, size), (next_name, next_size) in pairwise(ladder):
            if next_size.memory_mib <= size.memory_mib:
                raise ValueError(
                    f"{next_name} ({next_size.memory_mib} MiB) must have more memory than {name} ({size.memory_mib} MiB): "
                    "a job that ran out of memory is retried in the next size"
                )
            if next_size.disk_gib < size.disk_gib:
                raise ValueError(
                    f"{next_name} ({next_size.disk_gib} GiB) must not have less disk than {name} ({size.disk_gib} GiB): "
                    "a job that ran out of memory is retried in the next size, and its inputs must fit there too"
                )
        return self

    def by_name(self) -> dict[SizeName, Size]:
        """The sizes, smallest first."""
        return {"small": self.small, "medium": self.medium, "large": self.large, "xlarge": self.xlarge}


class Network(Model):
    """A VPC of our own (public subnets, no NAT), or an existing one that is named here."""

    # Two zones: a task that finds no capacity in one is started in the other.
    availability_zones: int = Field(default=2, ge=1, le=3)
    vpc_id: Annotated[str, Field(pattern=r"^vpc-[0-9a-f]{8,17}$")] | None = None
    # Named, not looked up: a look-up would need credentials at synth.
    subnet_ids: tuple[Annotated[str, Field(pattern=r"^subnet-[0-9a-f]{8,17}$")], ...] = ()
    # False for private subnets, which then need a way to S3, DynamoDB, ECR and CloudWatch Logs of their own.
    assign_public_ip: bool = True

    @model_validator(mode="after")
    def _named_whole(self) -> "Network":
        if self.vpc_id is not None and not self.subnet_ids:
            raise ValueError("subnet_ids is missing: an existing vpc_id needs the subnets in which tasks may run")
        if self.vpc_id is None and self.subnet_ids:
            raise ValueError("vpc_id is missing: subnet_ids belong to an existing VPC")
        if self.vpc_id is None and not self.assign_public_ip:
            raise ValueError(
                "assign_public_ip must be true without a vpc_id: the VPC of our own has no NAT, so a task without a public IP reaches nothing"
            )
        return self


class StageDeployment(StageSettings):
    """A stage, and what only the stack needs to know of it."""

    # A job that has waited for longer raises an alarm. A day, because nobody but its producers knows better.
    max_wait_s: int = Field(default=86_400, ge=300)
    # A job that recurs.
    schedule: Schedule | None = None


class Settings(Model):
    # Part of every task family's name, and a name in CloudFormation.
    stack_name: str = Field(default="Longhaul", pattern=r"^[A-Za-z][A-Za-z0-9-]{0,59}$")
    # Absent: the template fits every account and region, and the CDK CLI decides at deploy.
    account: Annotated[str, Field(pattern=r"^\d{12}$")] | None = None
    region: Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")] | None = None
    architecture: Architecture = "arm64"
    log_retention_days: LogRetention = 30
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    lease: LeaseSettings = LeaseSettings()
    stages: tuple[StageDeployment, ...] = Field(default=(StageDeployment(),), min_length=1)
    # Beside the data bucket, which is always allowed.
    input_buckets: tuple[BucketName, ...] = ()
    output_buckets: tuple[BucketName, ...] = ()
    # Where a message may take a job's code from: `s3://our-code/production/`, or `jobs/` in the data bucket. Who writes there runs code under the task's
    # role. None: the catalogue alone.
    job_prefixes: tuple[JobPrefix, ...] = ()
    # Only where the runner shares a disk with the producer: the local profile.
    allow_file_paths: bool = False
    sizes: Sizes = Sizes()
    network: Network = Network()
    # Absent: no such engine, and nothing of it in the template.
    emr_serverless: EmrDeployment | None = None
    # What the job's image is built on; must have `python`, and be Debian or alike.
    python_image: str = Field(default="public.ecr.aws/docker/library/python:3.13.9-slim-trixie", min_length=1)

    @model_validator(mode="after")
    def _stages_apart(self) -> "Settings":
        taken = {"Jobs": "the first stage's outputs", "DeadLetter": "the first stage's outputs"}
        for stage in self.stages:
            name = pascal(stage.name)
            if name in taken:
                raise ValueError(
                    f"stage {stage.name!r} clashes with {taken[name]}: a stage's name is part of its jobs' keys, "
                    f"and as {name} of its outputs, so both must be unique"
                )
            taken[name] = f"stage {stage.name!r}"
        return self

    @model_validator(mode="after")
    def _stages_chained(self) -> "Settings":
        stages = {stage.name: stage for stage in self.stages}
        upstream: dict[str, list[str]] = {name: [] for name in stages}
        for stage in self.stages:
            for name in stage.next:
                if name not in stages:
                    raise ValueError(
                        f"stage {stage.name!r} leads to {name!r}, which is no stage; there are: {', '.join(stages)}"
                    )
                upstream[name].append(stage.name)
        try:
            tuple(TopologicalSorter(upstream).static_order())
        except CycleError as error:
            raise ValueError(
                f"stages must not lead back to themselves: {' → '.join(reversed(error.args[1]))}"
            ) from error
        for name, sources in upstream.items():
            _check_upstream(stages[name], sources)
        return self

    @model_validator(mode="after")
    def _engines_there(self) -> "Settings":
        emr = self.emr_serverless
        if emr is not None:
            emr.check(self.sizes.by_name(), allow_file_paths=self.allow_file_paths)
            return self
        for stage in self.stages:
            if stage.engine == "emr-serverless":
                raise ValueError(
                    f"stage {stage.name!r} runs on emr-serverless, which needs the setting emr_serverless ({{}} will do)"
                )
        return self

    @model_validator(mode="after")
    def _queues_nameable(self) -> "Settings":
        for stage in self.stages:
            longest = f"{queue_prefix(self.stack_name, stage.name)}-dead-letters"
            if len(longest) > MAX_QUEUE_NAME:
                raise ValueError(
                    f"stack_name and the name of stage {stage.name!r} together make a queue name of {len(longest)} characters ({longest}); "
                    f"SQS allows {MAX_QUEUE_NAME}"
                )
        return self


def _check_upstream(stage: StageSettings, sources: list[str]) -> None:
    if len(set(sources)) < len(sources):
        raise ValueError(f"stage {stage.name!r} is named twice in one `next`: {', '.join(sources)}")
    if sources and stage.job is None:
        raise ValueError(
            f"stage {stage.name!r} needs a `job`: what follows a success of {', '.join(sources)} runs it, unless that names another"
        )
    if stage.join and len(sources) != 1:
        raise ValueError(
            f"stage {stage.name!r} joins what comes through one stage; "
            + (f"{', '.join(sources)} lead to it" if sources else "none leads to it")
        )


def queue_prefix(stack_name: str, stage: str) -> str:
    """How the names of a stage's queues begin."""
    return f"{stack_name}-{stage}"


def pascal(name: str) -> str:
    """`clean-up` as `CleanUp`: how a stage is called in construct ids and outputs."""
    return "".join(part.capitalize() for part in name.split("-"))


def load(usual: JsonValue, override: JsonValue) -> Settings:
    """The settings: those of `cdk.json`, overridden by those of the context; either may be absent (None), an object, or an object as JSON text.

    Raises:
        SettingsError: one or more are wrong.
    """
    merged = _merge(_as_object(usual), _as_object(override))
    try:
        return Settings.model_validate_json(json.dumps(merged), strict=True)
    except ValidationError as error:
        raise SettingsError(
            "\n".join(_explain(detail) for detail in _causes(error.errors(include_url=False)))
        ) from error


def _as_object(value: JsonValue) -> dict[str, JsonValue]:
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise SettingsError(f"{CONTEXT_KEY}: is not JSON ({error}); allowed: an object, as in cdk.json") from error
    if not isinstance(value, dict):
        raise SettingsError(f"{CONTEXT_KEY}: is {json.dumps(value)}; allowed: an object, as in cdk.json")
    return value


def _merge(below: dict[str, JsonValue], above: dict[str, JsonValue]) -> dict[str, JsonValue]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _causes(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without those that only follow from another: a list is also "too short" when pydantic leaves out its wrong entries."""
    return [
        detail
        for detail in details
        if not any(other["loc"][: len(detail["loc"])] == detail["loc"] != other["loc"] for other in details)
    ]


def _explain(detail: ErrorDetails) -> str:
    path = ".".join(map(str, (CONTEXT_KEY, *detail["loc"])))
    match detail["type"]:
        case "extra_forbidden":
            return f"{path}: is not a setting; allowed here: {', '.join(_fields_beside(detail['loc']))}"
        case "missing":
            return f"{path}: is missing"
        case "value_error":  # Ours: says itself what is allowed.
            return f"{path}: {detail['msg'].removeprefix('Value error, ')}"
        case _:
            return f"{path}: is {json.dumps(detail['input'])}; {detail['msg'][0].lower()}{detail['msg'][1:]}"


def _fields_beside(location: tuple[int | str, ...]) -> list[str]:
    """The names that the model knows at the place where `location` found an unknown one."""
    model: type[BaseModel] = Settings
    for step in location[:-1]:
        if isinstance(step, str):
            annotation = model.model_fields[step].annotation
            inner = [
                kind
                for kind in (annotation, *get_args(annotation))
                if isinstance(kind, type) and issubclass(kind, BaseModel)
            ]
            model = inner[0]
    return sorted(model.model_fields)
