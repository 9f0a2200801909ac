"""What each part may do, in the words of the design. The stack says who gets which."""

from collections.abc import Iterable, Sequence

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as sfn

from infra.job_queue import JobQueue
from infra.leases import OPEN_INDEX


def allow(grantee: iam.IGrantable, sid: str, actions: Sequence[str], resources: Sequence[str]) -> None:
    grantee.grant_principal.add_to_principal_policy(
        iam.PolicyStatement(sid=sid, actions=list(actions), resources=list(resources))
    )


def hold_leases(grantee: iam.IGrantable, table: dynamodb.ITable) -> None:
    """Read rows and move them by conditional writes, also in transactions (whose rights are those of their parts)."""
    allow(
        grantee,
        "HoldLeases",
        [
            "dynamodb:GetItem",
            "dynamodb:BatchGetItem",
            "dynamodb:PutItem",
            "dynamodb:UpdateItem",
            "dynamodb:DeleteItem",
            "dynamodb:ConditionCheckItem",
        ],
        [table.table_arn],
    )


def beat_leases(grantee: iam.IGrantable, table: dynamodb.ITable) -> None:
    """Read a row, and say that it lives."""
    allow(grantee, "BeatLeases", ["dynamodb:GetItem", "dynamodb:UpdateItem"], [table.table_arn])


def find_open_leases(grantee: iam.IGrantable, table: dynamodb.ITable) -> None:
    """List the rows with something left to do."""
    allow(grantee, "FindOpenLeases", ["dynamodb:Query"], [f"{table.table_arn}/index/{OPEN_INDEX}"])


def receive_jobs(grantee: iam.IGrantable, queues: Iterable[JobQueue]) -> None:
    """What an event source mapping asks of its function's role."""
    allow(
        grantee,
        "ReceiveJobs",
        ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
        [queue.jobs.queue_arn for queue in queues],
    )


def extend_messages(grantee: iam.IGrantable, queues: Iterable[JobQueue]) -> None:
    """Keep a message invisible, or show it."""
    allow(grantee, "ExtendMessages", ["sqs:ChangeMessageVisibility"], [queue.jobs.queue_arn for queue in queues])


def finish_messages(grantee: iam.IGrantable, queues: Sequence[JobQueue]) -> None:
    """Release, renew and delete messages, send follow-ons to other stages, and dead-letter with a reason."""
    extend_messages(grantee, queues)
    allow(
        grantee,
        "FinishMessages",
        ["sqs:SendMessage", "sqs:DeleteMessage"],
        [queue.jobs.queue_arn for queue in queues],
    )
    allow(grantee, "DeadLetter", ["sqs:SendMessage"], [queue.dead_letters.queue_arn for queue in queues])


def write_objects(grantee: iam.IGrantable, buckets: Iterable[s3.IBucket]) -> None:
    """Upload in parts, publish (complete, `_SUCCESS`, delete what it replaces) or abort.

    Listing is for the sake of an honest answer: without it S3 says 403 where it means 404, and "is this file there" cannot be asked.
    """
    buckets = list(buckets)
    allow(
        grantee,
        "WriteObjects",
        [
            "s3:GetObject",
            "s3:PutObject",
            "s3:DeleteObject",
            "s3:AbortMultipartUpload",
            "s3:ListMultipartUploadParts",
        ],
        [bucket.arn_for_objects("*") for bucket in buckets],
    )
    allow(grantee, "ListOutputs", ["s3:ListBucket"], [bucket.bucket_arn for bucket in buckets])


def read_objects(grantee: iam.IGrantable, buckets: Iterable[s3.IBucket]) -> None:
    """Stage inputs."""
    buckets = list(buckets)
    if buckets:
        allow(grantee, "ReadObjects", ["s3:GetObject"], [bucket.arn_for_objects("*") for bucket in buckets])
        allow(grantee, "ListInputs", ["s3:ListBucket"], [bucket.bucket_arn for bucket in buckets])


def stop_tasks(grantee: iam.IGrantable, tasks: str) -> None:
    """Stop a task that its own execution may not have stopped."""
    allow(grantee, "StopTasks", ["ecs:StopTask"], [tasks])


def start_executions(grantee: iam.IGrantable, machine: sfn.StateMachine) -> None:
    """Start an attempt, or probe whether it lives by starting it again."""
    allow(grantee, "StartExecutions", ["states:StartExecution"], [machine.state_machine_arn])


def describe_executions(grantee: iam.IGrantable, machine: sfn.StateMachine) -> None:
    """Prove an attempt dead."""
    executions = Stack.of(machine).format_arn(
        service="states",
        resource="execution",
        resource_name=f"{machine.state_machine_name}:*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    allow(grantee, "DescribeExecutions", ["states:DescribeExecution"], [executions])
