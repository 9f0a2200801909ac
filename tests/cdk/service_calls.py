"""What AWS's services do by themselves, with the stack's roles or by their own names.

No request of ours makes these calls, so no test that runs the stack sees them. Each stands here
with the page that asks for the right.
"""

from typing import Final

from tests.cdk.conftest import CATALOG_KEY, KEY
from tests.cdk.roles import HERE, Use
from tests.local.support import ACCOUNT, REGION

DOCS: Final = "https://docs.aws.amazon.com"
_PULL: Final = f"{DOCS}/AmazonECS/latest/developerguide/task_execution_IAM_role.html"
_LAMBDA_LOGS: Final = f"{DOCS}/lambda/latest/dg/monitoring-cloudwatchlogs.html"
_TRUST: Final = f"{DOCS}/IAM/latest/UserGuide/id_roles_create_for-service.html"
_S3_KMS: Final = f"{DOCS}/AmazonS3/latest/userguide/UsingKMSEncryption.html"
_GLUE_KMS: Final = f"{DOCS}/glue/latest/dg/encrypt-glue-data-catalog.html"
_OPTIMIZER: Final = f"{DOCS}/glue/latest/dg/optimization-prerequisites.html"
_EMR_LOGS: Final = f"{DOCS}/emr/latest/EMR-Serverless-UserGuide/logging.html"
_IMAGES: Final = f"cdk-hnb659fds-container-assets-{ACCOUNT}-{REGION}"
_ASSETS: Final = f"arn:aws:s3:::cdk-hnb659fds-assets-{ACCOUNT}-{REGION}/longhaul/Longhaul/entry.py"
_LOG_CALLS: Final = ("logs:CreateLogStream", "logs:PutLogEvents")
_TRACES: Final = ("xray:PutTraceSegments", "xray:PutTelemetryRecords")
_RULE_CALLS: Final = ("events:PutTargets", "events:PutRule", "events:DescribeRule")
_OUR: Final[dict[str, str | list[str]]] = {"aws:SourceAccount": ACCOUNT}


def _stream(group: str) -> str:
    return f"arn:aws:logs:{HERE}:log-group:{group}:log-stream:one"


def _assumed(role: str, service: str, **more: str) -> Use:
    context = {**_OUR, **{f"aws:{name}": value for name, value in more.items()}}
    return Use(f"{service}.amazonaws.com", ("sts:AssumeRole",), f"<{role}.Arn>", _TRUST, context)


def _function(name: str, role: str, group: str) -> list[Use]:
    """What Lambda does for a function."""
    return [
        Use(role, _LOG_CALLS, _stream(group), _LAMBDA_LOGS),
        Use(role, _TRACES, "*", f"{DOCS}/lambda/latest/dg/services-xray.html"),
        _assumed(f"{name}Role", "lambda"),
    ]


def _rule(rule: str, action: str, target: str, letters: str) -> list[Use]:
    """What EventBridge does for a rule."""
    page = f"{DOCS}/eventbridge/latest/userguide/eb-use-resource-based.html"
    context: dict[str, str | list[str]] = {"aws:SourceArn": f"<{rule}.Arn>"}
    return [
        Use("events.amazonaws.com", (action,), f"<{target}.Arn>", page, context),
        Use("events.amazonaws.com", ("sqs:SendMessage",), f"<{letters}.Arn>", page, context),
    ]


def through_s3(role: str, actions: tuple[str, ...], key: str, arn: str) -> Use:
    """What S3 asks of KMS in the name of a role that reads or writes an object."""
    region = key.split(":")[3]
    context: dict[str, str | list[str]] = {
        "kms:ViaService": f"s3.{region}.amazonaws.com",
        "kms:EncryptionContext:aws:s3:arn": arn,
    }
    return Use(f"<{role}.Arn>", actions, key, _S3_KMS, context)


def scheduled(stage: str) -> list[Use]:
    """What Scheduler does for the schedules of a stage."""
    role, pages = f"Scheduling{stage}Role", f"{DOCS}/scheduler/latest/UserGuide"
    return [
        Use(
            f"<{role}.Arn>",
            ("sqs:SendMessage",),
            f"<{stage}QueueJobs.Arn>",
            f"{pages}/setting-up.html",
        ),
        Use(
            f"<{role}.Arn>",
            ("sqs:SendMessage",),
            "<SchedulingUndelivered.Arn>",
            f"{pages}/configuring-schedule-dlq.html",
        ),
        _assumed(role, "scheduler"),
    ]


def triggered(stage: str) -> list[Use]:
    """What EventBridge does for a stage with `on_object`."""
    letters = "SchedulingUndelivered"
    return _rule(f"Triggers{stage}Objects", "sqs:SendMessage", f"{stage}QueueJobs", letters)


USUAL: Final = [
    Use("<SparkExecutionRole.Arn>", ("ecr:GetAuthorizationToken",), "*", _PULL),
    Use(
        "<SparkExecutionRole.Arn>",
        ("ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"),
        f"arn:aws:ecr:{HERE}:repository/{_IMAGES}",
        _PULL,
    ),
    Use("<SparkExecutionRole.Arn>", _LOG_CALLS, _stream("<SparkLogs>"), _PULL),
    Use(
        "<WorkflowRole.Arn>",
        _RULE_CALLS,
        f"arn:aws:events:{HERE}:rule/StepFunctionsGetEventsForECSTaskRule",
        f"{DOCS}/step-functions/latest/dg/connect-ecs.html",
    ),
    Use(
        "<WorkflowRole.Arn>",
        (
            *("logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery"),
            *("logs:DeleteLogDelivery", "logs:ListLogDeliveries", "logs:PutResourcePolicy"),
            *("logs:DescribeResourcePolicies", "logs:DescribeLogGroups"),
        ),
        "*",
        f"{DOCS}/step-functions/latest/dg/cw-logs.html",
    ),
    Use(
        "<WorkflowRole.Arn>",
        (*_TRACES, "xray:GetSamplingRules", "xray:GetSamplingTargets"),
        "*",
        f"{DOCS}/step-functions/latest/dg/concepts-xray-tracing.html",
    ),
    Use(
        "<DispatcherRole.Arn>",
        ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
        "<MainQueueJobs.Arn>",
        f"{DOCS}/lambda/latest/dg/services-sqs-configure.html",
    ),
    *(
        use
        for name in ("Dispatcher", "Heartbeat", "Settle", "Sweeper")
        for use in _function(name, f"<{name}Role.Arn>", f"<{name}Logs>")
    ),
    *scheduled("Main"),
    *_rule("SweepingExecutionEnded", "lambda:InvokeFunction", "Sweeper", "SweepingUndelivered"),
    *_rule("SweepingEveryFewMinutes", "lambda:InvokeFunction", "Sweeper", "SweepingUndelivered"),
    Use(
        "cloudwatch.amazonaws.com",
        ("sns:Publish",),
        "<AlarmsTopic.Arn>",
        f"{DOCS}/AmazonCloudWatch/latest/monitoring/Notify_Users_Alarm_Changes.html",
        _OUR,
    ),
    _assumed("SparkTaskRole", "ecs-tasks"),
    _assumed("SparkExecutionRole", "ecs-tasks"),
    _assumed("WorkflowRole", "states"),
]
"""For the stack with the settings of `cdk.json`."""

ENGINES: Final = [
    # Lambda pulls the function's image by its own name; its right is in the repository's policy.
    Use("<LambdaJobRole.Arn>", _LOG_CALLS, _stream("<SparkLogs>"), _LAMBDA_LOGS),
    _assumed("LambdaJobRole", "lambda"),
    Use(
        "<WorkflowRole.Arn>",
        _RULE_CALLS,
        f"arn:aws:events:{HERE}:rule/StepFunctionsGetEventsForEMRServerlessJobRule",
        f"{DOCS}/step-functions/latest/dg/emr-serverless-iam.html",
    ),
    Use(
        "<WorkflowRole.Arn>",
        ("emr-serverless:GetJobRun",),
        "<EmrServerlessApplication.Arn>/jobruns/…",
        f"{DOCS}/step-functions/latest/dg/emr-serverless-iam.html",
    ),
    _assumed("EmrServerlessJobRole", "emr-serverless", SourceArn="<EmrServerlessApplication.Arn>"),
    Use(
        "<EmrServerlessJobRole.Arn>",
        ("s3:GetObject",),
        _ASSETS,
        f"{DOCS}/emr/latest/EMR-Serverless-UserGuide/security-iam-runtime-role.html",
    ),
    through_s3(
        "EmrServerlessJobRole", ("kms:Decrypt",), f"arn:aws:kms:{HERE}:key/bootstrap", _ASSETS
    ),
    Use("<EmrServerlessJobRole.Arn>", _LOG_CALLS, _stream("<SparkLogs>"), _EMR_LOGS),
    Use(
        "<EmrServerlessJobRole.Arn>",
        ("logs:DescribeLogStreams",),
        f"arn:aws:logs:{HERE}:log-group:<SparkLogs>:log-stream:",
        _EMR_LOGS,
    ),
]
"""For the size tiny and EMR Serverless."""

_DATA_FILES: Final = "arn:aws:s3:::<Data>/longhaul/requests/…"
_OPTIMIZED: Final = "arn:aws:s3:::<Data>/tables/longhaul/delays/data/one.parquet"
GUARDED: Final = [
    *(
        use
        for role in ("DispatcherRole", "SettleRole", "SweeperRole", "SparkTaskRole")
        for use in (
            through_s3(role, ("kms:Decrypt", "kms:GenerateDataKey"), KEY, _DATA_FILES),
            Use(
                f"<{role}.Arn>",
                ("kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey"),
                CATALOG_KEY,
                _GLUE_KMS,
                {"kms:ViaService": f"glue.{REGION}.amazonaws.com"},
            ),
        )
    ),
    _assumed("TablesOptimizerRole", "glue"),
    *(
        Use(
            "<TablesOptimizerRole.Arn>",
            ("glue:GetTable", "glue:UpdateTable"),
            f"arn:aws:glue:{HERE}:{part}",
            _OPTIMIZER,
        )
        for part in ("table/longhaul/delays", "database/longhaul", "catalog")
    ),
    Use(
        "<TablesOptimizerRole.Arn>",
        ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"),
        _OPTIMIZED,
        _OPTIMIZER,
    ),
    Use("<TablesOptimizerRole.Arn>", ("s3:ListBucket",), "<Data.Arn>", _OPTIMIZER),
    *(
        Use(
            "<TablesOptimizerRole.Arn>",
            (action,),
            f"arn:aws:logs:{HERE}:log-group:/aws-glue/iceberg-{optimizer}/logs:log-stream:{name}",
            _OPTIMIZER,
        )
        for optimizer in ("compaction", "retention", "orphan-file-deletion")
        for action, name in (
            ("logs:CreateLogGroup", ""),
            ("logs:CreateLogStream", "one"),
            ("logs:PutLogEvents", "one"),
        )
    ),
    through_s3("TablesOptimizerRole", ("kms:Decrypt", "kms:GenerateDataKey"), KEY, _OPTIMIZED),
    Use(
        "<TablesOptimizerRole.Arn>",
        ("kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey"),
        CATALOG_KEY,
        _GLUE_KMS,
        {"kms:ViaService": f"glue.{REGION}.amazonaws.com"},
    ),
    _assumed("NetworkFlowLogsRole", "vpc-flow-logs"),
    Use(
        "<NetworkFlowLogsRole.Arn>",
        (*_LOG_CALLS, "logs:DescribeLogStreams"),
        _stream("<NetworkFlowLogs>"),
        f"{DOCS}/vpc/latest/userguide/flow-logs-iam-role.html",
    ),
]
"""For what a platform team may ask for: keys, Glue's optimizers, flow logs."""
