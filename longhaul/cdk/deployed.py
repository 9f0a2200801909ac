"""What functions and tasks know about the deployment: the value of `LONGHAUL_SETTINGS`."""

import json
import re
from collections.abc import Mapping
from typing import Final

from aws_cdk import ArnFormat, Stack

from longhaul.cdk.data_bucket import DataBucket
from longhaul.cdk.leases import Leases
from longhaul.cdk.queues import StageQueues
from longhaul.config.errors import SettingsError
from longhaul.config.known import Made, as_json, known, variables_of
from longhaul.config.settings import CONTEXT_KEY, Settings
from longhaul.config.stages import queue_prefix
from longhaul.core.settings import EmrApplication, RuntimeSettings
from longhaul.engines.emr_serverless.construct import EmrServerless
from longhaul.engines.fargate.construct import SparkRuntime

# Lambda allows 4 KiB for all variables of a function; Powertools' variables take the rest.
ROOM_FOR_SETTINGS: Final = 4096 - 128
# What CloudFormation may fill in: its names have at most 80 characters, and an ARN adds 53.
_LONGEST: Final = "x" * 133
# Of a queue's URL, the part before its name.
_BEFORE_A_QUEUE: Final = "https://sqs.cn-northwest-1.amazonaws.com.cn/123456789012/"
_TOKEN: Final = re.compile(r"\$\{Token\[[^]]*]}")


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
        SettingsError: the JSON does not fit a function's environment.
    """
    stack = Stack.of(leases)
    made = Made(
        data_bucket=data.bucket_name,
        leases_table=leases.table.table_name,
        # By name: the machine itself names functions that need these settings.
        state_machine_arn=stack.format_arn(
            service="states",
            resource="stateMachine",
            resource_name=settings.stack_name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        ),
        cluster_arn=spark.cluster.attr_arn,
        job_log_group=spark.log_group.log_group_name,
        queue_urls={
            name: (each.jobs.queue_url, each.dead_letters.queue_url)
            for name, each in queues.items()
        },
        public_ip=spark.network.assign_public_ip,
        emr_serverless=EmrApplication(
            application_arn=emr.application.attr_arn, work_area=emr.work_area
        )
        if emr
        else None,
    )
    longest = Made(
        data_bucket="x" * 63,
        leases_table=_LONGEST,
        state_machine_arn=_LONGEST,
        cluster_arn=_LONGEST,
        job_log_group=_LONGEST,
        queue_urls={
            each.name: (f"{begin}-jobs", f"{begin}-dead-letters")
            for each in settings.stages
            if (begin := f"{_BEFORE_A_QUEUE}{queue_prefix(settings.stack_name, each.name)}")
        },
        emr_serverless=EmrApplication(application_arn=_LONGEST, work_area=_LONGEST),
    )
    length = _length(_as_json(known(settings, jobs, longest)))
    if length > ROOM_FOR_SETTINGS:
        raise SettingsError(
            f"{CONTEXT_KEY}: needs up to {length} bytes of a function's environment, "
            f"which has {ROOM_FOR_SETTINGS} for it; "
            "use fewer stages or buckets, or shorter names"
        )
    # The function of a stage's tiny jobs has its variables beside it all.
    room = ROOM_FOR_SETTINGS - length
    for name, variables in variables_of(settings.stages).items() if settings.sizes.tiny else ():
        needed = _length(as_json({name: variables}))
        if needed > room:
            raise SettingsError(
                f"{CONTEXT_KEY}: environment and secrets of stage {name!r} need up to {needed} "
                "bytes of the environment of its function for the size tiny, which has "
                f"{room} left for them; use fewer or shorter ones, or take sizes.tiny out"
            )
    return _as_json(known(settings, jobs, made))


def _as_json(settings: RuntimeSettings) -> str:
    """Without defaults, to save room in the environment."""
    content = settings.model_dump(mode="json", exclude_defaults=True)
    return json.dumps(content, separators=(",", ":"))


def _length(text: str) -> int:
    """The bytes of a text once CloudFormation has filled it in, at most."""
    return len(_TOKEN.sub(_LONGEST, text).encode())
