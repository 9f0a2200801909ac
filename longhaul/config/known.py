"""What functions, tasks and a project's tests know of a deployment: of its settings, by name.

Also whether there is what the settings name, as far as the dispatcher could tell. Imports no CDK.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from longhaul.config.cdk_context import meant
from longhaul.config.errors import Problem
from longhaul.config.metric_alarm import watched
from longhaul.config.rights import input_prefixes
from longhaul.config.schedule import DATA_BUCKET, EXAMPLES
from longhaul.config.settings import Settings
from longhaul.config.stages import StageDeployment
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.pipeline import Pipeline
from longhaul.domain.policy import parse_request
from longhaul.domain.tables import place_of
from longhaul.settings import (
    AdvancedStageSettings,
    EmrApplication,
    PathPolicy,
    RequestLimits,
    RuntimeSettings,
    Stage,
    StageSettings,
    TaskSettings,
    TaskSize,
)

_BUCKET: Final = EXAMPLES[DATA_BUCKET]
_APPLICATION: Final = EmrApplication(
    application_arn="application", work_area=f"s3://{_BUCKET}/longhaul/work/"
)


@dataclass(frozen=True)
class Made:
    """What a deployment makes, as functions and tasks know it; by default where nothing is made."""

    data_bucket: str = _BUCKET
    leases_table: str = "leases"
    state_machine_arn: str = "machine"
    cluster_arn: str = "cluster"
    job_log_group: str = "logs"
    queue_urls: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By stage, of the queues of its jobs and of its dead letters."""
    emr_serverless: EmrApplication = field(default_factory=lambda: _APPLICATION)
    """Left out where the settings have no such engine."""
    public_ip: bool = True

    def absolute(self, prefix: str) -> str:
        """`prefix` as `s3://bucket/…/`; without a bucket it is one of the data bucket."""
        return prefix if prefix.startswith("s3://") else f"s3://{self.data_bucket}/{prefix}"


def known(settings: Settings, jobs: Sequence[str], made: Made = Made()) -> RuntimeSettings:
    """What functions and tasks know; `jobs` are the names of all jobs."""
    sizes = settings.sizes
    every = sizes.by_name() | ({"tiny": sizes.tiny} if sizes.tiny else {})
    return RuntimeSettings(
        leases_table=made.leases_table,
        stages=tuple(_stage(each, settings.stages, made) for each in settings.stages),
        paths=PathPolicy(
            data_bucket=made.data_bucket,
            input_buckets=settings.input_buckets,
            output_buckets=settings.output_buckets,
            job_prefixes=tuple(map(made.absolute, settings.job_prefixes)),
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
                for name, size in every.items()
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
    pipeline = Pipeline(stages)
    limits = stage.advanced.limits.model_dump()
    limits["input_prefixes"] = input_prefixes(stage, stages)
    for name in ("jobs", "input_prefixes", "output_prefixes"):
        if limits[name] is not None:
            # A name of the catalogue is no prefix.
            limits[name] = tuple(
                made.absolute(each) if each.endswith("/") else each for each in limits[name]
            )
    jobs, dead_letters = made.queue_urls.get(stage.name, ("jobs", "dead-letters"))
    return Stage(
        **stage.model_dump(include=set(StageSettings.model_fields) - {"join"}),
        **stage.advanced.model_dump(include=set(AdvancedStageSettings.model_fields) - {"limits"}),
        limits=RequestLimits(**limits),
        join=bool(stage.join),
        # A retired one may have no stage before it any more.
        opener=pipeline.opener(stage.name) if stage.name in pipeline.joins else None,
        queue_url=jobs,
        dead_letter_queue_url=dead_letters,
    )


def unfit(settings: Settings, jobs: Sequence[str]) -> Iterator[Problem]:
    """What names a job that is not there, or sends what the dispatcher would refuse."""
    there = known(settings, jobs)
    for n, stage in enumerate(settings.stages):
        seen, trigger = there.stage(stage.name), stage.advanced.on_object
        allowed = seen.limits.jobs
        if stage.job is not None and stage.job not in jobs:
            yield Problem(("stages", n, "job"), _no_job(stage.job, jobs))
        for place, names in (
            (("limits", "jobs"), allowed or ()),
            (("alarms",), [watched(each).job for each in stage.advanced.alarms]),
        ):
            for number, name in enumerate(names):
                at = ("stages", n, "advanced", *place, number)
                if name not in jobs and not name.startswith(there.paths.job_prefixes):
                    yield Problem(at, _no_job(name, jobs))
                elif allowed is not None and name not in allowed:
                    yield Problem(at, f"limits.jobs does not let {name!r} run")
        for at, body in (
            (("schedule",), stage.schedule and stage.schedule.example()),
            (("advanced", "on_object"), trigger and trigger.example(_BUCKET)),
        ):
            for why in _refused(body, settings, there, seen) if body else ():
                yield Problem(("stages", n, *at, "request"), why)


def _no_job(name: str, jobs: Sequence[str]) -> str:
    return f"there is no job {name!r}; {meant(name, jobs)}there are: {', '.join(jobs)}"


def _refused(
    body: Mapping[str, Any], settings: Settings, there: RuntimeSettings, stage: Stage
) -> Iterator[str]:
    """Why the dispatcher's own parser refuses a request, or a trigger would answer to its files."""
    try:
        request = parse_request(json.dumps(body), there, stage)
    except InvalidRequestError as error:
        yield str(error)
        return
    for name, output in request.places.items():
        what = "the output" if name == "output" else f"the output {name}"
        for other in settings.stages:
            trigger = other.advanced.on_object
            if trigger and place_of(output, _BUCKET).startswith(
                f"s3://{trigger.bucket or _BUCKET}/{trigger.prefix}"
            ):
                yield (
                    f"{what} is below {trigger.prefix}, so each of its files would start a job of "
                    f"{other.name}; name another prefix"
                )
