"""What functions and tasks know about the deployment: the value of `LONGHAUL_SETTINGS`."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from aws_cdk import ArnFormat, Stack

from longhaul.cdk.data_bucket import DataBucket
from longhaul.cdk.leases import Leases
from longhaul.cdk.queues import StageQueues
from longhaul.config.errors import SettingsError
from longhaul.config.known import Made, known
from longhaul.config.settings import CONTEXT_KEY, Settings
from longhaul.config.stages import queue_prefix
from longhaul.config.variables import as_json, variables_of
from longhaul.engines.emr_serverless.construct import EmrServerless
from longhaul.engines.fargate.construct import SparkRuntime
from longhaul.settings import EmrApplication

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
    )
    if emr:
        application = EmrApplication(
            application_arn=emr.application.attr_arn, work_area=emr.work_area
        )
        made = replace(made, emr_serverless=application)
    # Without defaults, to save room in the environment.
    content = known(settings, jobs, made).model_dump(mode="json", exclude_defaults=True)
    lengths = _lengths(settings, queues, data)
    length = _longest(json.dumps(content), lengths)
    if length > ROOM_FOR_SETTINGS:
        raise SettingsError(
            f"{CONTEXT_KEY}: needs up to {length} bytes of a function's environment, "
            f"which has {ROOM_FOR_SETTINGS} for it; "
            "use fewer stages or buckets, or shorter names"
        )
    # The function of a stage's tiny jobs has its variables beside it all.
    room = ROOM_FOR_SETTINGS - length
    for name, variables in variables_of(settings.stages).items() if settings.sizes.tiny else ():
        needed = _longest(as_json({name: variables}), lengths)
        if needed > room:
            raise SettingsError(
                f"{CONTEXT_KEY}: environment and secrets of stage {name!r} need up to {needed} "
                "bytes of the environment of its function for the size tiny, which has "
                f"{room} left for them; use fewer or shorter ones, or take sizes.tiny out"
            )
    return json.dumps(content, separators=(",", ":"))


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


def _longest(text: str, lengths: Mapping[str, int]) -> int:
    """The bytes of a text once CloudFormation has filled it in, at most."""
    for token, length in lengths.items():
        text = text.replace(token, "x" * length)
    text = _PSEUDO.sub("x" * LONGEST_PSEUDO, text)
    return len(_NAME.sub("x" * LONGEST_NAME, text).encode())
