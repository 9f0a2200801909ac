"""The settings of a stage, and what the stages of one stack mean for each other. Imports no CDK."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Final, get_args

from pydantic import Field, field_validator, model_validator

from longhaul.config.metric_alarm import MetricAlarm
from longhaul.config.rights import PolicyName, RoleArn, Statement
from longhaul.config.schedule import Schedule
from longhaul.config.trigger import Trigger
from longhaul.config.variables import MAX_VARIABLES, SecretArn, VariableName, VariableValue
from longhaul.domain.lineage import MAX_OPENED
from longhaul.domain.paths import TABLES_PREFIX, follow_ons_prefix
from longhaul.domain.pipeline import MAX_LENGTH, Pipeline
from longhaul.domain.tables import TablePath
from longhaul.engines.listed import engine_named
from longhaul.settings import AdvancedStageSettings, RequestLimits, SizeName, StageSettings

_FOLDERS = r"([A-Za-z0-9_-][A-Za-z0-9._=-]*/)"
# `s3://bucket/folder/`, or a folder of the data bucket. It ends with a slash: `jobs` would also
# allow `jobs-of-others`.
Prefix = Annotated[
    str, Field(pattern=rf"^(s3://[a-z0-9][a-z0-9.-]{{1,61}}[a-z0-9]/{_FOLDERS}*|{_FOLDERS}+)$")
]

# Of IAM's 10,240 for the policies of a role. Ours take two thousand and more.
_MAX_POLICIES: Final = 6_000
# The slots and the arrivals at joins are in the table as `slots#…` and `join#…`. A task may write
# all items under `<stage>#`.
_KEYS_OF_OURS: Final = ("slots", "join")


class StageLimits(RequestLimits):
    """The most that a request may ask for. A prefix may be a folder of the data bucket."""

    jobs: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    input_prefixes: tuple[Prefix, ...] | None = None
    output_prefixes: Annotated[tuple[Prefix, ...], Field(min_length=1)] | None = None


class AdvancedStageDeployment(AdvancedStageSettings):
    """What few stages set: limits, rights, variables, notices, and when a job is given up."""

    # The most that a request may ask for.
    limits: StageLimits = StageLimits()
    # A job that waits longer raises an alarm.
    max_wait_s: int = Field(default=86_400, ge=300)
    # Expressions over what its jobs measure, such as `parse: bad_rows > 100`.
    alarms: Annotated[tuple[MetricAlarm, ...], Field(max_length=50)] = ()
    # A job for each object that is created below a prefix.
    on_object: Trigger | None = None
    # What its jobs may do beside what its limits open to them: statements in IAM's own words
    # (docs/stages.md#rights).
    policies: tuple[Statement, ...] = ()
    # For the same, managed policies: of the account by name, AWS's own by ARN. A role has ten, or
    # twenty.
    managed_policies: Annotated[tuple[PolicyName, ...], Field(max_length=20)] = ()
    # The ARN of a role of yours, in the place of the stack's (docs/stages.md#a-role-of-your-own).
    role: RoleArn | None = None
    # Variables of the environment in which its jobs run. Not for secrets: the template shows them.
    environment: Annotated[dict[VariableName, VariableValue], Field(max_length=MAX_VARIABLES)] = (
        Field(default_factory=dict)
    )
    # Variables that each attempt reads when it begins: by name, the ARN of a secret or of a
    # parameter of SSM (docs/stages.md).
    secrets: Annotated[dict[VariableName, SecretArn], Field(max_length=MAX_VARIABLES)] = Field(
        default_factory=dict
    )
    # How the names of its queues begin. A stage with a hyphen in its name needs it: `a-b` of the
    # stack `c` and `b` of the stack `c-a` would share queues.
    queue_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] | None = None

    @model_validator(mode="after")
    def _each_variable_once(self) -> "AdvancedStageDeployment":
        if twice := sorted(self.environment.keys() & self.secrets.keys()):
            raise ValueError(f"{', '.join(twice)} is in environment and in secrets; leave one out")
        return self

    @model_validator(mode="after")
    def _rights_of_one_kind(self) -> "AdvancedStageDeployment":
        if self.role is not None and (self.policies or self.managed_policies):
            raise ValueError(
                "the stage has a role of its own, which the stack does not change: put what is in "
                "policies and managed_policies into that role"
            )
        sids = [each.Sid for each in self.policies if each.Sid]
        if twice := next((each for each in sids if sids.count(each) > 1), None):
            raise ValueError(
                f"policies has two statements with the Sid {twice}; IAM takes each once"
            )
        statements = [each.model_dump(exclude_defaults=True) for each in self.policies]
        if (length := len(json.dumps(statements, separators=(",", ":")))) > _MAX_POLICIES:
            raise ValueError(
                f"policies has {length:,} characters, and a role has room for {_MAX_POLICIES:,}; "
                "put some into a managed policy (managed_policies)"
            )
        return self

    @model_validator(mode="after")
    def _times_within_limits(self) -> "AdvancedStageDeployment":
        for name, limit in (
            ("timeout_s", "max_timeout_s"),
            ("stall_timeout_s", "max_stall_timeout_s"),
            ("max_attempts", "max_attempts"),
        ):
            value, ceiling = getattr(self, name), getattr(self.limits, limit)
            if value > ceiling:
                raise ValueError(
                    f"{name} ({value:,}) is above limits.{limit} ({ceiling:,}); raise the limit"
                )
        return self


class StageDeployment(StageSettings):
    """A stage: a queue, how many of its jobs run at once, and what follows from a success."""

    # A job that recurs.
    schedule: Schedule | None = None
    # What few stages set.
    advanced: AdvancedStageDeployment = AdvancedStageDeployment()

    @field_validator("name")
    @classmethod
    def _no_key_of_ours(cls, name: str) -> str:
        if name in _KEYS_OF_OURS:
            raise ValueError(
                f"the stage {name!r} would have its jobs under keys that Longhaul uses itself: give"
                " it another name"
            )
        return name

    @model_validator(mode="after")
    def _requests_within_limits(self) -> "StageDeployment":
        sizes: tuple[SizeName, ...] = get_args(SizeName)
        limits = self.advanced.limits
        if sizes.index(self.size) > sizes.index(limits.max_size):
            raise ValueError(
                f"size {self.size} is above advanced.limits.max_size ({limits.max_size}); raise "
                "the limit"
            )
        if self.job and limits.jobs is not None and self.job not in limits.jobs:
            raise ValueError(
                f"the job {self.job!r} is not in advanced.limits.jobs ({', '.join(limits.jobs)}); "
                "add it"
            )
        return self


def queue_prefix(stack_name: str, stage: StageDeployment) -> str:
    """How the names of a stage's queues begin."""
    return stage.advanced.queue_prefix or f"{stack_name}-{stage.name}"


def pascal(name: str) -> str:
    """`clean-up` as `CleanUp`: a stage's name in construct ids and outputs."""
    return "".join(part.capitalize() for part in name.split("-"))


def check_pipelines(stages: Sequence[StageDeployment]) -> None:
    """Check where the stages lead, and what follows from that for each.

    Raises:
        ValueError: a stage leads nowhere or back to itself, or cannot take what comes to it.
    """
    by_name = {stage.name: stage for stage in stages}
    upstream: dict[str, list[str]] = {name: [] for name in by_name}
    for stage in stages:
        for name in stage.next:
            if name not in by_name:
                raise ValueError(
                    f"stage {stage.name!r} leads to {name!r}, which is no stage; "
                    f"there are: {', '.join(by_name)}"
                )
            upstream[name].append(stage.name)
    try:
        tuple(TopologicalSorter(upstream).static_order())
    except CycleError as error:
        raise ValueError(
            f"stages must not lead back to themselves: {' → '.join(reversed(error.args[1]))}"
        ) from error
    _check_lengths(by_name)
    for name, sources in upstream.items():
        _check_upstream(by_name[name], sources)
        _check_outputs(by_name[name], sources)
        _check_follow_on(by_name[name], sources, [by_name[n] for n in by_name[name].next])
        _check_retired(by_name[name], [by_name[source] for source in sources])
    pipeline = Pipeline(stages)
    for name in pipeline.joins:
        _check_join(by_name[name], pipeline, by_name)
    for name in by_name:
        if (count := len(pipeline.opened_by(name))) > MAX_OPENED:
            raise ValueError(
                f"{count} joins may belong to the jobs of stage {name!r}; at most {MAX_OPENED}"
            )


def _check_lengths(stages: Mapping[str, StageDeployment]) -> None:
    """Check that no pipeline is longer than what a job can carry of those before it."""

    @cache
    def length(name: str) -> int:
        return 1 + max((length(each) for each in stages[name].next), default=0)

    for name in stages:
        if length(name) > MAX_LENGTH:
            raise ValueError(
                f"{length(name)} stages follow one another from {name!r} on; at most {MAX_LENGTH}:"
                " let the last of one pipeline send jobs to the first of another"
            )


def _check_join(
    stage: StageDeployment, pipeline: Pipeline, stages: Mapping[str, StageDeployment]
) -> None:
    """Check that one stage is the opener of a join, and that all that leads there passes it."""
    opener, before = pipeline.opener(stage.name), pipeline.collected(stage.name)
    if isinstance(stage.join, str):
        if opener not in stages:
            raise ValueError(
                f"stage {stage.name!r} joins what descends from {opener!r}, which is no stage; "
                f"there are: {', '.join(stages)}"
            )
        # While a stage between them is retired, nothing leads there any more. No job of the join,
        # or of a stage behind it, ever led there.
        may_have_led = not pipeline.is_behind(opener, stage.name) and any(
            each.advanced.retired and pipeline.leads(each.name, stage.name)
            for each in stages.values()
        )
        if not pipeline.leads(opener, stage.name) and not may_have_led:
            raise ValueError(
                f"stage {stage.name!r} joins what descends from {opener!r}, which does not lead to "
                f"{before!r}, the stage before it, but by another join of several of its jobs; "
                f"name one that does: {', '.join(pipeline.splits(stage.name)) or before}"
            )
    elif len(splits := pipeline.splits(stage.name)) > 1:
        choices = " or ".join(f'"join": "{name}"' for name in splits)
        raise ValueError(
            f"stage {stage.name!r} joins, and {' and '.join(splits)} can each split what leads to "
            f"it: write whose jobs it belongs to, one start for each, {choices}"
        )
    if around := pipeline.around(stage.name):
        raise ValueError(
            f"stage {stage.name!r} joins what descends from {opener!r}, and {', '.join(around)} "
            f"leads to {before!r} without passing {opener!r}: such jobs would belong to no start; "
            "name a stage that all pass"
        )


def _check_upstream(stage: StageDeployment, sources: Sequence[str]) -> None:
    if len(set(sources)) < len(sources):
        raise ValueError(f"stage {stage.name!r} is named twice in one `next`: {', '.join(sources)}")
    if sources and stage.job is None:
        raise ValueError(
            f"stage {stage.name!r} needs a `job`: "
            f"what follows a success of {', '.join(sources)} runs it, unless that names another"
        )
    if stage.join and len(sources) != 1 and not (stage.advanced.retired and not sources):
        raise ValueError(
            f"stage {stage.name!r} joins what comes through one stage; "
            + (f"{', '.join(sources)} lead to it" if sources else "none leads to it")
        )


def _check_outputs(stage: StageDeployment, sources: Sequence[str]) -> None:
    """Check that a follow-on that names no output may write where it is given one."""
    prefixes, place = stage.advanced.limits.output_prefixes, follow_ons_prefix(stage.name)
    if stage.follow_on.output:
        return
    if sources and prefixes is not None and not place.startswith(prefixes):
        raise ValueError(
            f"stage {stage.name!r} follows {', '.join(sources)}, and jobs that follow write below "
            f"{place} of the data bucket, unless they name another output; add {place!r} to its "
            "limits.output_prefixes"
        )


def _check_follow_on(
    stage: StageDeployment, sources: Sequence[str], following: Sequence[StageDeployment]
) -> None:
    """Check that follow-ons may write to the table that is named for them."""
    output = stage.follow_on.output
    if output is None:
        return
    table, prefixes = TablePath.of(output), stage.advanced.limits.output_prefixes
    place = f"{TABLES_PREFIX}{table.database}/{table.name}/"
    if not sources:
        raise ValueError(
            f"stage {stage.name!r} has a follow_on, and no stage leads to it: "
            "name it in the `next` of one"
        )
    if not engine_named(stage.advanced.engine).has_tables:
        raise ValueError(
            f"stage {stage.name!r} runs on {stage.advanced.engine}, whose jobs write to no tables; "
            "take its follow_on out"
        )
    for each in following:
        if not engine_named(each.advanced.engine).has_tables:
            raise ValueError(
                f"stage {each.name!r} runs on {each.advanced.engine}, whose jobs read no tables, "
                f"and gets the follow_on.output of {stage.name!r}; take that out"
            )
    if not stage.join and stage.follow_on.mode not in ("append", "overwrite_partitions"):
        raise ValueError(
            f"stage {stage.name!r} has the follow_on.mode {stage.follow_on.mode}, and each job "
            "would replace what the last one wrote, or fail on it; let it be append or "
            "overwrite_partitions"
        )
    if prefixes is not None and not place.startswith(prefixes):
        raise ValueError(
            f"stage {stage.name!r} has the follow_on.output {output}, which is at {place} in the "
            f"data bucket; add {place!r} to its limits.output_prefixes"
        )


def _check_retired(stage: StageDeployment, sources: Sequence[StageDeployment]) -> None:
    if not stage.advanced.retired:
        return
    if stage.schedule is not None:
        raise ValueError(
            f"stage {stage.name!r} is retired and has a schedule, which would go on sending jobs; "
            "take the schedule out"
        )
    if stage.advanced.on_object is not None:
        raise ValueError(
            f"stage {stage.name!r} is retired and has an on_object, which would go on sending "
            "jobs; take it out"
        )
    for source in sources:
        if not source.advanced.retired:
            raise ValueError(
                f"stage {source.name!r} leads to {stage.name!r}, which is retired: what follows "
                f"from its jobs would wait without end; take {stage.name!r} out of its `next`, "
                f"or retire {source.name!r} first"
            )
