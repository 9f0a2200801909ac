"""What each part may do, in the words of the design. The stack says who gets which."""

from collections.abc import Iterable, Mapping, Sequence

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as sfn

from infra.job_queue import JobQueue
from infra.nag import acknowledge_wildcards
from longhaul.adapters.dynamodb_indexes import OPEN_INDEX


def allow(
    role: iam.IRole,
    sid: str,
    actions: Sequence[str],
    resources: Sequence[str],
    *,
    conditions: Mapping[str, object] | None = None,
    wildcards: str = "",
) -> None:
    """Add one statement to the role's policy; `wildcards` says why a resource of it needs one."""
    role.add_to_principal_policy(
        iam.PolicyStatement(sid=sid, actions=list(actions), resources=list(resources), conditions=conditions)
    )
    if wildcards:
        acknowledge_wildcards(role, resources, wildcards)


def hold_leases(role: iam.IRole, table: dynamodb.ITable) -> None:
    """Read rows and move them by conditional writes, also in transactions (whose rights are those of their parts)."""
    allow(
        role,
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


def join_leases(role: iam.IRole, table: dynamodb.ITable) -> None:
    """Read who has come to a join."""
    allow(role, "JoinLeases", ["dynamodb:Query"], [table.table_arn])


def beat_leases(role: iam.IRole, table: dynamodb.ITable) -> None:
    """Read a row, and say that it lives."""
    allow(role, "BeatLeases", ["dynamodb:GetItem", "dynamodb:UpdateItem"], [table.table_arn])


def find_open_leases(role: iam.IRole, table: dynamodb.ITable) -> None:
    """List the rows with something left to do."""
    allow(role, "FindOpenLeases", ["dynamodb:Query"], [f"{table.table_arn}/index/{OPEN_INDEX}"])


def receive_jobs(role: iam.IRole, queues: Iterable[JobQueue]) -> None:
    """What an event source mapping asks of its function's role."""
    allow(
        role,
        "ReceiveJobs",
        ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
        [queue.jobs.queue_arn for queue in queues],
    )


def count_messages(role: iam.IRole, queues: Iterable[JobQueue]) -> None:
    """Ask how many messages wait."""
    allow(role, "CountMessages", ["sqs:GetQueueAttributes"], [queue.jobs.queue_arn for queue in queues])


def extend_messages(role: iam.IRole, queues: Iterable[JobQueue]) -> None:
    """Keep a message invisible, or show it."""
    allow(role, "ExtendMessages", ["sqs:ChangeMessageVisibility"], [queue.jobs.queue_arn for queue in queues])


def finish_messages(role: iam.IRole, queues: Sequence[JobQueue]) -> None:
    """Release, renew and delete messages, send follow-ons to other stages, and dead-letter with a reason."""
    extend_messages(role, queues)
    allow(
        role,
        "FinishMessages",
        ["sqs:SendMessage", "sqs:DeleteMessage"],
        [queue.jobs.queue_arn for queue in queues],
    )
    allow(role, "DeadLetter", ["sqs:SendMessage"], [queue.dead_letters.queue_arn for queue in queues])


def write_objects(role: iam.IRole, buckets: Iterable[s3.IBucket]) -> None:
    """Upload in parts, publish (complete, `_SUCCESS`, delete what it replaces) or abort.

    Listing is for the sake of an honest answer: without it S3 says 403 where it means 404, and "is this file there" cannot be asked.
    """
    buckets = list(buckets)
    allow(
        role,
        "WriteObjects",
        [
            "s3:GetObject",
            "s3:PutObject",
            "s3:DeleteObject",
            "s3:AbortMultipartUpload",
            "s3:ListMultipartUploadParts",
        ],
        [bucket.arn_for_objects("*") for bucket in buckets],
        wildcards="Keys are the producers' to choose; whole buckets are what the settings open.",
    )
    allow(role, "ListOutputs", ["s3:ListBucket"], [bucket.bucket_arn for bucket in buckets])


def read_objects(role: iam.IRole, buckets: Iterable[s3.IBucket]) -> None:
    """Stage inputs."""
    buckets = list(buckets)
    if buckets:
        allow(
            role,
            "ReadObjects",
            ["s3:GetObject"],
            [bucket.arn_for_objects("*") for bucket in buckets],
            wildcards="Keys are the producers' to choose; whole buckets are what the settings open.",
        )
        allow(role, "ListInputs", ["s3:ListBucket"], [bucket.bucket_arn for bucket in buckets])


def read_code(role: iam.IRole, prefixes: Sequence[str]) -> None:
    """Fetch a job's code that a message names."""
    if prefixes:
        partition = Stack.of(role).partition
        allow(
            role,
            "ReadCode",
            ["s3:GetObject"],
            [f"arn:{partition}:s3:::{prefix.removeprefix('s3://')}*" for prefix in prefixes],
            wildcards="Names of jobs are their authors' to choose; the prefixes are what the settings open.",
        )


def stop_tasks(role: iam.IRole, tasks: str) -> None:
    """Stop a task that its own execution may not have stopped."""
    allow(
        role,
        "StopTasks",
        ["ecs:StopTask"],
        [tasks],
        wildcards="A task's id is known only once it runs; the cluster is ours alone.",
    )


def find_tasks(role: iam.IRole, cluster_arn: str, tasks: str) -> None:
    """List the tasks that run, and read whose they are."""
    role.add_to_principal_policy(
        iam.PolicyStatement(
            sid="ListTasks",
            actions=["ecs:ListTasks"],
            resources=["*"],
            conditions={"ArnEquals": {"ecs:cluster": cluster_arn}},
        )
    )
    acknowledge_wildcards(role, ["*"], "ecs:ListTasks knows no resource; the condition names our cluster.")
    allow(
        role,
        "DescribeTasks",
        ["ecs:DescribeTasks"],
        [tasks],
        wildcards="A task's id is known only once it runs; the cluster is ours alone.",
    )


def cancel_job_runs(role: iam.IRole, application_arn: str, job_runs: str) -> None:
    """Find a job run by its name, and cancel one that its own execution may not have cancelled."""
    allow(role, "FindJobRuns", ["emr-serverless:ListJobRuns"], [application_arn])
    allow(
        role,
        "CancelJobRuns",
        ["emr-serverless:CancelJobRun"],
        [job_runs],
        wildcards="A job run's id is known only once it runs; the application is ours alone.",
    )


def start_executions(role: iam.IRole, machine: sfn.StateMachine) -> None:
    """Start an attempt, or probe whether it lives by starting it again."""
    allow(role, "StartExecutions", ["states:StartExecution"], [machine.state_machine_arn])


def describe_executions(role: iam.IRole, machine: sfn.StateMachine) -> None:
    """Prove an attempt dead."""
    executions = Stack.of(machine).format_arn(
        service="states",
        resource="execution",
        resource_name=f"{machine.state_machine_name}:*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    allow(
        role,
        "DescribeExecutions",
        ["states:DescribeExecution"],
        [executions],
        wildcards="Executions are named at claim; the machine is ours alone.",
    )
