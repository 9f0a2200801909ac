"""What functions, tasks and a project's tests know of a deployment: of its settings, by name.

Imports no CDK.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pydantic import Field

from longhaul.config.errors import SettingsError
from longhaul.config.rights import absolute, input_prefixes
from longhaul.config.settings import Settings
from longhaul.config.stages import TO_COME, StageDeployment, queue_prefix
from longhaul.config.starts import DATA_BUCKET, EXAMPLES
from longhaul.core.settings import (
    AdvancedStageSettings,
    EmrApplication,
    JobVariables,
    Model,
    PathPolicy,
    RuntimeSettings,
    Stage,
    StageSettings,
    TaskSettings,
    TaskSize,
)
from longhaul.pipelines.pipeline import Pipeline

BUCKET: Final = EXAMPLES[DATA_BUCKET]
"""In the place of the data bucket, where nothing is deployed."""


# Lambda allows 4 KiB for all variables of a function; Powertools' variables take the rest.
ROOM_FOR_SETTINGS: Final = 4096 - 128
# What CloudFormation may fill in: its names have at most 80 characters, and an ARN adds 53.
_LONGEST: Final = "x" * 133
# Of a queue's URL, the part before its name.
_BEFORE_A_QUEUE: Final = "https://sqs.cn-northwest-1.amazonaws.com.cn/123456789012/"


class Made(Model):
    """What a deployment makes, as functions and tasks know it; by default where nothing is made."""

    data_bucket: str = BUCKET
    leases_table: str = "leases"
    state_machine_arn: str = "machine"
    cluster_arn: str = "cluster"
    job_log_group: str = "logs"
    queue_urls: dict[str, tuple[str, str]] = Field(default_factory=dict)
    """By stage, of the queues of its jobs and of its dead letters."""
    emr_serverless: EmrApplication | None = EmrApplication(
        application_arn="application", work_area=f"s3://{BUCKET}/longhaul/work/"
    )
    """Left out where the settings have no such engine."""
    public_ip: bool = True


def known(settings: Settings, jobs: Sequence[str], made: Made | None = None) -> RuntimeSettings:
    """What functions and tasks know; `jobs` are the names of all jobs."""
    made = made or Made()
    return RuntimeSettings(
        leases_table=made.leases_table,
        stages=tuple(_stage(each, settings.stages, made) for each in settings.stages),
        paths=PathPolicy(
            data_bucket=made.data_bucket,
            input_buckets=settings.input_buckets,
            output_buckets=settings.output_buckets,
            job_prefixes=absolute(settings.job_prefixes, made.data_bucket),
            table_databases=settings.databases,
            allow_file=settings.allow_file_paths,
        ),
        jobs=tuple(jobs),
        lease=settings.lease,
        tasks=TaskSettings(
            architecture=settings.architecture,
            public_ip=made.public_ip,
            sizes={
                name: TaskSize(cpu=size.cpu, memory_mib=size.memory_mib, disk_gib=size.disk_gib)
                for name, size in settings.sizes.every().items()
            },
        ),
        state_machine_arn=made.state_machine_arn,
        cluster_arn=made.cluster_arn,
        job_log_group=made.job_log_group,
        emr_serverless=made.emr_serverless if settings.emr_serverless else None,
        metrics_namespace=settings.stack_name,
    )


def _stage(stage: StageDeployment, stages: Sequence[StageDeployment], made: Made) -> Stage:
    """The stage as deployed, among all."""
    pipeline, limits = Pipeline(stages), stage.advanced.limits
    prefixes = {
        "jobs": limits.jobs,
        "input_prefixes": input_prefixes(stage, stages),
        "output_prefixes": limits.output_prefixes,
    }
    known_prefixes = {
        name: value and absolute(value, made.data_bucket) for name, value in prefixes.items()
    }
    jobs, dead_letters = made.queue_urls.get(stage.name, ("jobs", "dead-letters"))
    return Stage(
        **stage.model_dump(include=set(StageSettings.model_fields) - {"join"}),
        **stage.advanced.model_dump(include=set(AdvancedStageSettings.model_fields) - {"limits"}),
        limits=limits.model_copy(update=known_prefixes),
        join=bool(stage.join),
        # A retired one may have no stage before it any more.
        opener=pipeline.opener(stage.name) if stage.name in pipeline.joins else None,
        queue_url=jobs,
        dead_letter_queue_url=dead_letters,
    )


def environment(settings: Settings, jobs: Sequence[str], made: Made) -> str:
    """The value of the variable `longhaul.core.settings.VARIABLE`.

    Raises:
        SettingsError: it does not fit a function's environment, whatever CloudFormation fills in.
    """
    begins = {
        each.name: f"{_BEFORE_A_QUEUE}{queue_prefix(settings.stack_name, each.name)}"
        for each in settings.stages
    }
    longest = Made(
        data_bucket="x" * 63,
        leases_table=_LONGEST,
        state_machine_arn=_LONGEST,
        cluster_arn=_LONGEST,
        job_log_group=_LONGEST,
        queue_urls={
            name: (f"{begin}-jobs", f"{begin}-dead-letters") for name, begin in begins.items()
        },
        emr_serverless=EmrApplication(application_arn=_LONGEST, work_area=_LONGEST),
    )
    text = re.sub(TO_COME, _LONGEST, _as_json(known(settings, jobs, longest)))
    if len(text.encode()) > ROOM_FOR_SETTINGS:
        raise SettingsError(
            f"the settings need up to {len(text.encode())} bytes of a function's environment, "
            f"which has {ROOM_FOR_SETTINGS} for them; use fewer stages or buckets, or shorter names"
        )
    return _as_json(known(settings, jobs, made))


def _as_json(settings: RuntimeSettings) -> str:
    """Without defaults, to save room in the environment."""
    content = settings.model_dump(mode="json", exclude_defaults=True)
    return json.dumps(content, separators=(",", ":"))


def variables_of(stages: Iterable[StageDeployment]) -> dict[str, JobVariables]:
    """By stage, what its jobs find in their environment; only of stages that have any."""
    return {
        each.name: JobVariables(
            environment=each.advanced.environment, secrets=each.advanced.secrets
        )
        for each in stages
        if each.advanced.environment or each.advanced.secrets
    }


def as_json(variables: Mapping[str, JobVariables]) -> str:
    """The value of the tasks' variable `longhaul.core.settings.JOB_VARIABLES`."""
    content = {name: each.model_dump(exclude_defaults=True) for name, each in variables.items()}
    return json.dumps(content, separators=(",", ":"))
