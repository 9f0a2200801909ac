"""What functions and tasks know about the deployment: the value of `LONGHAUL_SETTINGS`."""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from aws_cdk import ArnFormat, Stack

from longhaul.cdk.data_bucket import DataBucket
from longhaul.cdk.leases import Leases
from longhaul.cdk.queues import StageQueues
from longhaul.config.errors import SettingsError
from longhaul.config.known import known_paths, known_stage, task_sizes
from longhaul.config.metric_alarm import watched
from longhaul.config.schedule import DATA_BUCKET, EXAMPLES
from longhaul.config.settings import CONTEXT_KEY, Settings
from longhaul.config.stages import queue_prefix
from longhaul.config.variables import as_json, variables_of
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.policy import parse_request
from longhaul.domain.tables import place_of
from longhaul.engines.emr_serverless.construct import EmrServerless
from longhaul.engines.fargate.construct import SparkRuntime
from longhaul.settings import (
    EmrApplication,
    RuntimeSettings,
    TaskSettings,
)

# Lambda allows 4 KiB for all variables of a function; Powertools' variables take the rest.
ROOM_FOR_SETTINGS: Final = 4096 - 128
# What a token may become: CloudFormation's names have at most 80 characters, and a queue's URL or
# an ARN adds 53; a region has at most 14.
LONGEST_NAME: Final = 133
LONGEST_BUCKET: Final = 63
# Of a queue's URL, the part before its name.
BEFORE_A_QUEUE: Final = len("https://sqs.cn-northwest-1.amazonaws.com.cn/123456789012/")
LONGEST_PSEUDO: Final = 14
_PSEUDO: Final = re.compile(r"\$\{Token\[AWS[^]]*]}")
_NAME: Final = re.compile(r"\$\{Token\[[^]]*]}")


def runtime_settings(
    *,
    settings: Settings,
    jobs: tuple[str, ...],
    queues: Mapping[str, StageQueues],
    leases: Leases,
    data: DataBucket,
    spark: SparkRuntime,
    emr: EmrServerless | None,
) -> str:
    """`RuntimeSettings` as JSON, in which tokens stand for what CloudFormation fills in.

    Raises:
        SettingsError: a stage's job, or one that an alarm watches, is not among `jobs`; a schedule
            sends what the dispatcher would refuse; or the JSON does not fit a function's
            environment.
    """
    stack = Stack.of(leases)
    known = RuntimeSettings(
        leases_table=leases.table.table_name,
        stages=tuple(
            known_stage(
                stage,
                settings.stages,
                data.absolute,
                queue_url=queues[stage.name].jobs.queue_url,
                dead_letter_queue_url=queues[stage.name].dead_letters.queue_url,
            )
            for stage in settings.stages
        ),
        paths=known_paths(settings, data.bucket_name, data.absolute),
        jobs=jobs,
        lease=settings.lease,
        tasks=TaskSettings(
            architecture=settings.architecture,
            public_ip=spark.network.assign_public_ip,
            sizes=task_sizes(settings.sizes),
        ),
        # By name: the machine itself names functions that need these settings.
        state_machine_arn=stack.format_arn(
            service="states",
            resource="stateMachine",
            resource_name=settings.stack_name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        ),
        cluster_arn=spark.cluster.attr_arn,
        job_log_group=spark.log_group.log_group_name,
        emr_serverless=_emr_application(emr) if emr else None,
        metrics_namespace=settings.stack_name,
    )
    _check_jobs(known)
    _check_alarms(settings, known)
    _check_requests(settings, known)
    # Without defaults, to save room in the environment.
    content = known.model_dump(mode="json", exclude_defaults=True)
    lengths = _lengths(settings, queues, data)
    _check_length(content, lengths)
    if settings.sizes.tiny is not None:
        for name, variables in variables_of(settings.stages).items():
            _check_room(name, as_json({name: variables}), content, lengths)
    return json.dumps(content, separators=(",", ":"))


def _emr_application(emr: EmrServerless) -> EmrApplication:
    return EmrApplication(application_arn=emr.application.attr_arn, work_area=emr.work_area)


def _check_jobs(known: RuntimeSettings) -> None:
    for n, stage in enumerate(known.stages):
        if stage.job is not None and stage.job not in known.jobs:
            raise SettingsError(
                f"{CONTEXT_KEY}.stages.{n}.job: {stage.name} has the job {stage.job!r}, "
                f"which there is not; there are: {', '.join(known.jobs)}"
            )
        for name in stage.limits.jobs or ():
            if name not in known.jobs and not name.startswith(known.paths.job_prefixes):
                raise SettingsError(
                    f"{CONTEXT_KEY}.stages.{n}.advanced.limits.jobs: {stage.name} has {name!r}, "
                    "which is neither a job nor below a prefix of job_prefixes; "
                    f"the jobs are: {', '.join(known.jobs)}"
                )


def _check_alarms(settings: Settings, known: RuntimeSettings) -> None:
    """Refuse an alarm that no job can ring: a wrong name would be as silent as a good job.

    Which code is below a prefix of job_prefixes is not known here.
    """
    for n, stage in enumerate(settings.stages):
        limits = known.stage(stage.name).limits.jobs
        for number, expression in enumerate(stage.advanced.alarms):
            job = watched(expression).job
            place = f"{CONTEXT_KEY}.stages.{n}.advanced.alarms.{number}"
            where = f"{place}: {expression!r} watches {job!r}"
            if job not in known.jobs and not job.startswith(known.paths.job_prefixes):
                near = get_close_matches(job, known.jobs, n=1)
                raise SettingsError(
                    f"{where}, which is neither a job nor below a prefix of job_prefixes; "
                    + (f"did you mean {near[0]}? " if near else "")
                    + f"the jobs are: {', '.join(known.jobs)}"
                )
            if limits is not None and job not in limits:
                raise SettingsError(
                    f"{where}, which limits.jobs of {stage.name} does not let run; "
                    f"it lets run: {', '.join(limits)}"
                )


def _check_requests(settings: Settings, known: RuntimeSettings) -> None:
    """Have the dispatcher's own parser read what each schedule and trigger will send."""
    # The bucket gets its name only at deployment.
    bucket = EXAMPLES[DATA_BUCKET]
    text = known.model_dump_json().replace(known.paths.data_bucket, bucket)
    known = RuntimeSettings.model_validate_json(text)
    triggers = [
        (each.name, each.advanced.on_object) for each in settings.stages if each.advanced.on_object
    ]
    for n, stage in enumerate(settings.stages):
        trigger = stage.advanced.on_object
        bodies = {
            "schedule": stage.schedule and stage.schedule.example(),
            "advanced.on_object": trigger and trigger.example(bucket),
        }
        for name, body in bodies.items():
            if body is None:
                continue
            try:
                request = parse_request(json.dumps(body), known, known.stage(stage.name))
            except InvalidRequestError as error:
                raise SettingsError(f"{CONTEXT_KEY}.stages.{n}.{name}.request: {error}") from error
            for field, output in request.places.items():
                written = place_of(output, bucket)
                what = "the output" if field == "output" else f"the output {field}"
                for of_stage, other in triggers:
                    if written.startswith(f"s3://{other.bucket or bucket}/{other.prefix}"):
                        raise SettingsError(
                            f"{CONTEXT_KEY}.stages.{n}.{name}.request: {what} is below "
                            f"{other.prefix}, so each of its files would start a job of "
                            f"{of_stage}; name another prefix"
                        )


def _lengths(
    settings: Settings, queues: Mapping[str, StageQueues], data: DataBucket
) -> dict[str, int]:
    """Token → its length at most, where more is known than of any: names that are fixed or short.

    They are most of the text where a stack has many stages, each with prefixes of its own.
    """
    lengths = {data.bucket_name: LONGEST_BUCKET}
    for stage in settings.stages:
        prefix, own = queue_prefix(settings.stack_name, stage), queues[stage.name]
        lengths[own.jobs.queue_url] = BEFORE_A_QUEUE + len(f"{prefix}-jobs")
        lengths[own.dead_letters.queue_url] = BEFORE_A_QUEUE + len(f"{prefix}-dead-letters")
    return lengths


def _check_length(content: Mapping[str, Any], lengths: Mapping[str, int]) -> None:
    length = _longest(json.dumps(content), lengths)
    if length > ROOM_FOR_SETTINGS:
        raise SettingsError(
            f"{CONTEXT_KEY}: needs up to {length} bytes of a function's environment, "
            f"which has {ROOM_FOR_SETTINGS} for it; "
            "use fewer stages or buckets, or shorter names"
        )


def _check_room(
    stage: str, variables: str, content: Mapping[str, Any], lengths: Mapping[str, int]
) -> None:
    """Check that the function of a stage's tiny jobs has room for the variables beside it all."""
    room = ROOM_FOR_SETTINGS - _longest(json.dumps(content), lengths)
    if (length := _longest(variables, lengths)) > room:
        raise SettingsError(
            f"{CONTEXT_KEY}: environment and secrets of stage {stage!r} need up to {length} bytes "
            f"of the environment of its function for the size tiny, which has {room} left for "
            "them; use fewer or shorter ones, or take sizes.tiny out"
        )


def _longest(text: str, lengths: Mapping[str, int]) -> int:
    """The bytes of a text once CloudFormation has filled it in, at most."""
    for token, length in lengths.items():
        text = text.replace(token, "x" * length)
    text = _PSEUDO.sub("x" * LONGEST_PSEUDO, text)
    return len(_NAME.sub("x" * LONGEST_NAME, text).encode())
