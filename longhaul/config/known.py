"""What functions, tasks and a project's tests know of a stage. Imports no CDK."""

from collections.abc import Callable, Sequence
from typing import Final

from longhaul.config.project import Project
from longhaul.config.rights import input_prefixes
from longhaul.config.settings import Settings
from longhaul.config.sizes import Sizes
from longhaul.config.stages import StageDeployment
from longhaul.domain.pipeline import Pipeline
from longhaul.settings import (
    AdvancedStageSettings,
    EmrApplication,
    PathPolicy,
    RequestLimits,
    RuntimeSettings,
    SizeName,
    Stage,
    StageSettings,
    TaskSettings,
    TaskSize,
)

TEST_BUCKET: Final = "data"
"""In tests of a project, the data bucket of its stack; its real name comes with the deployment."""


def known_stage(
    stage: StageDeployment,
    stages: Sequence[StageDeployment],
    absolute: Callable[[str], str],
    *,
    queue_url: str = "queue",
    dead_letter_queue_url: str = "dead-letters",
) -> Stage:
    """The stage as deployed, among all; `absolute` gives a prefix its bucket."""
    pipeline = Pipeline(stages)
    return Stage(
        **stage.model_dump(include=set(StageSettings.model_fields) - {"join"}),
        **stage.advanced.model_dump(include=set(AdvancedStageSettings.model_fields) - {"limits"}),
        join=bool(stage.join),
        # A retired one may have no stage before it any more.
        opener=pipeline.opener(stage.name) if stage.name in pipeline.joins else None,
        limits=_limits(stage, stages, absolute),
        queue_url=queue_url,
        dead_letter_queue_url=dead_letter_queue_url,
    )


def known_paths(settings: Settings, bucket: str, absolute: Callable[[str], str]) -> PathPolicy:
    return PathPolicy(
        data_bucket=bucket,
        input_buckets=settings.input_buckets,
        output_buckets=settings.output_buckets,
        job_prefixes=tuple(map(absolute, settings.job_prefixes)),
        table_databases=settings.databases,
        allow_file=settings.allow_file_paths,
    )


def task_sizes(sizes: Sizes) -> dict[SizeName, TaskSize]:
    found = {name: TaskSize(**size.model_dump()) for name, size in sizes.by_name().items()}
    if tiny := sizes.tiny:
        found["tiny"] = TaskSize(cpu=tiny.cpu, memory_mib=tiny.memory_mib, disk_gib=tiny.disk_gib)
    return found


def known_in_tests(project: Project) -> RuntimeSettings:
    """The project's stages, paths, sizes and engines, with names for what a deployment makes.

    Raises:
        SettingsError: its settings are wrong.
    """
    settings = project.checked()

    def absolute(prefix: str) -> str:
        return prefix if prefix.startswith("s3://") else f"s3://{TEST_BUCKET}/{prefix}"

    work_area = f"s3://{TEST_BUCKET}/longhaul/work/"
    has_emr = settings.emr_serverless is not None
    emr = EmrApplication(application_arn="application", work_area=work_area) if has_emr else None
    return RuntimeSettings(
        leases_table="leases",
        stages=tuple(known_stage(each, settings.stages, absolute) for each in settings.stages),
        paths=known_paths(settings, TEST_BUCKET, absolute),
        jobs=project.job_names,
        tasks=TaskSettings(sizes=task_sizes(settings.sizes)),
        emr_serverless=emr,
        state_machine_arn="machine",
        cluster_arn="cluster",
        job_log_group="logs",
    )


def _limits(
    stage: StageDeployment, stages: Sequence[StageDeployment], absolute: Callable[[str], str]
) -> RequestLimits:
    """The stage's limits, with whole prefixes."""
    limits = stage.advanced.limits.model_dump()
    limits["input_prefixes"] = input_prefixes(stage, stages)
    for name in ("jobs", "input_prefixes", "output_prefixes"):
        if limits[name] is not None:
            # A name of the catalogue is no prefix.
            limits[name] = tuple(
                absolute(each) if each.endswith("/") else each for each in limits[name]
            )
    return RequestLimits(**limits)
