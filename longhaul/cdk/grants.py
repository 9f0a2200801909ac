"""Rights by what they are for. The stack says which part gets which."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from aws_cdk import ArnFormat, Stack, Token
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as sfn
from constructs import IConstruct

from longhaul.cdk.nag import acknowledge_wildcards
from longhaul.cdk.queues import StageQueues
from longhaul.config.rights import bucket_in
from longhaul.core.lease import stage_folders
from longhaul.core.places import TABLES_PREFIX
from longhaul.core.secret_refs import SecretRef
from longhaul.core.store.table import NAMED_BY_TASKS, OPEN

Table = tuple[str, str]
"""A database, and the name of a table in it, or `*` for all."""

# Why some resources need a wildcard.
WHY_ANY_KEY: Final = "Keys are the producers' to choose; whole buckets are what the settings open."
_WHY_ANY_TABLE: Final = (
    "Tables are the requests' to name; the databases are what the settings open."
)
WHY_ANY_TASK: Final = "A task's id is known only once it runs; the cluster is ours alone."


def for_this_account(scope: IConstruct, service: str) -> iam.ServicePrincipal:
    """The service, when it acts for this account: no other account can make it use the role."""
    return iam.ServicePrincipal(
        service, conditions={"StringEquals": {"aws:SourceAccount": Stack.of(scope).account}}
    )


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
        iam.PolicyStatement(
            sid=sid, actions=list(actions), resources=list(resources), conditions=conditions
        )
    )
    if wildcards:
        acknowledge_wildcards(role, resources, wildcards)


def find_stack(role: iam.IRole, stack: Stack) -> None:
    """Find the parts of a deployment, and the settings, which its functions have."""
    name = stack.stack_name
    found = stack.format_arn(service="cloudformation", resource="stack", resource_name=f"{name}/*")
    function = stack.format_arn(
        service="lambda",
        resource="function",
        resource_name=f"{name}-*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    why = "CloudFormation makes the stack's id, and the names of its functions."
    actions = ["cloudformation:DescribeStacks", "cloudformation:ListStackResources"]
    allow(role, "FindStack", actions, [found], wildcards=why)
    allow(role, "ReadSettings", ["lambda:GetFunctionConfiguration"], [function], wildcards=why)


def hold_leases(role: iam.IRole, table: dynamodb.ITable) -> None:
    """Change rows by conditional writes, with the slots, the attempts' records and the joins.

    A transaction needs the rights of its parts.
    """
    for sid, *actions in (
        ("HoldLeases", "GetItem", "PutItem", "UpdateItem"),
        # Many rows at once.
        ("SurveyLeases", "BatchGetItem"),
        # What a join waits for, and what has arrived.
        ("JoinLeases", "ConditionCheckItem", "Query"),
    ):
        allow(role, sid, [f"dynamodb:{each}" for each in actions], [table.table_arn])


def beat_leases(role: iam.IRole, table: dynamodb.ITable, stages: Iterable[str]) -> None:
    """Read a row and extend its lease."""
    actions = ["dynamodb:GetItem", "dynamodb:UpdateItem"]
    allow(role, "BeatLeases", actions, [table.table_arn], conditions=_rows_of(stages))


def report_to_leases(role: iam.IRole, table: dynamodb.ITable, stage: str) -> None:
    """Write what an attempt reports into its row; the write itself says what the row is.

    A row of its own stage alone: IAM knows no condition for the row of one task.

    Not `ttl`, for one, at which DynamoDB deletes a row.
    """
    # Of these AWS looks at the names in the request, and not at what it returns. So the writes can
    # return the whole row, which they do, and no condition keeps a job's code from reading it.
    names = {"ForAllValues:StringEquals": {"dynamodb:Attributes": list(NAMED_BY_TASKS)}}
    actions, conditions = ["dynamodb:UpdateItem"], {**_rows_of([stage]), **names}
    allow(role, "ReportToLeases", actions, [table.table_arn], conditions=conditions)


def _rows_of(stages: Iterable[str]) -> Mapping[str, object]:
    """Only items under the key of a job: no slots, and no arrivals at a join."""
    keys = [f"{stage}#*" for stage in stages]
    return {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": keys}}


def find_open_leases(role: iam.IRole, table: dynamodb.ITable) -> None:
    """List the rows with something left to do."""
    allow(role, "FindOpenLeases", ["dynamodb:Query"], [f"{table.table_arn}/index/{OPEN.name}"])


def receive_jobs(role: iam.IRole, queues: Iterable[StageQueues]) -> None:
    """What an event source mapping requires of its function's role."""
    allow(
        role,
        "ReceiveJobs",
        ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
        [queue.jobs.queue_arn for queue in queues],
    )


def count_messages(role: iam.IRole, queues: Iterable[StageQueues]) -> None:
    """Read how many messages wait."""
    allow(
        role,
        "CountMessages",
        ["sqs:GetQueueAttributes"],
        [queue.jobs.queue_arn for queue in queues],
    )


def extend_messages(role: iam.IRole, queues: Iterable[StageQueues]) -> None:
    """Keep a message invisible, or make it visible."""
    allow(
        role,
        "ExtendMessages",
        ["sqs:ChangeMessageVisibility"],
        [queue.jobs.queue_arn for queue in queues],
    )


def finish_messages(role: iam.IRole, queues: Sequence[StageQueues]) -> None:
    """Release, renew and delete messages, send follow-ons, and dead-letter with a reason."""
    extend_messages(role, queues)
    allow(
        role,
        "FinishMessages",
        ["sqs:SendMessage", "sqs:DeleteMessage"],
        [queue.jobs.queue_arn for queue in queues],
    )
    allow(
        role, "DeadLetter", ["sqs:SendMessage"], [queue.dead_letters.queue_arn for queue in queues]
    )


def notify(role: iam.IRole, targets: Iterable[str]) -> None:
    """Tell the queues, topics and buses of these ARNs that a job has ended."""
    targets = set(targets)
    for service, action in (
        ("sqs", "sqs:SendMessage"),
        ("sns", "sns:Publish"),
        ("events", "events:PutEvents"),
    ):
        if named := sorted(arn for arn in targets if arn.split(":")[2] == service):
            allow(role, f"Notify{service.capitalize()}", [action], named)


def _objects(data: s3.IBucket, prefix: str) -> str:
    """The ARN pattern of what is below a prefix of the settings, which may end with a wildcard.

    Without a bucket it is one of the data bucket; the empty one is all of it.
    """
    return f"{_arn_of(data, prefix.removesuffix('*'))}*"


def _arn_of(data: s3.IBucket, prefix: str) -> str:
    if not bucket_in(prefix):
        return data.arn_for_objects(prefix)
    return f"arn:{Stack.of(data).partition}:s3:::{prefix.removeprefix('s3://')}"


def _buckets_of(data: s3.IBucket, prefixes: Iterable[str]) -> list[str]:
    names = dict.fromkeys(map(bucket_in, prefixes))
    return [_arn_of(data, f"s3://{name}") if name else data.bucket_arn for name in names]


def _deny(role: iam.IRole, sid: str, actions: Sequence[str], resources: Sequence[str]) -> None:
    """Add one statement that denies, if it denies anything."""
    if resources:
        role.add_to_principal_policy(
            iam.PolicyStatement(
                sid=sid, effect=iam.Effect.DENY, actions=list(actions), resources=list(resources)
            )
        )


def write_objects(
    role: iam.IRole,
    data: s3.IBucket,
    prefixes: Sequence[str],
    *,
    never: Sequence[str],
    kept: Sequence[str] = (),
) -> None:
    """Upload in parts, publish (complete, `_SUCCESS`, delete what it replaces) or abort.

    Without the right to list, S3 returns 403 instead of 404 for a missing file.

    Args:
        role: gets the rights.
        data: the data bucket, to which prefixes without a bucket belong.
        prefixes: where, apart from
        never: prefixes `s3://bucket/…/` below which the role may not write: what would be written
            there could be run, or taken for somebody's request.
        kept: prefixes below which it may not delete: a job's code says what a function deletes.
    """
    writes = ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
    # Also of a version by its id, of ACLs and tags, which other statements may allow.
    changes = ["s3:PutObject*", "s3:DeleteObject*", "s3:AbortMultipartUpload"]
    allow(
        role,
        "WriteObjects",
        ["s3:GetObject", *writes],
        [_objects(data, each) for each in prefixes],
        wildcards=WHY_ANY_KEY,
    )
    allow(role, "ListOutputs", ["s3:ListBucket"], _buckets_of(data, prefixes))
    _deny(role, "NeverWrite", changes, [_objects(data, each) for each in never])
    _deny(role, "NeverDelete", ["s3:DeleteObject*"], [_objects(data, each) for each in kept])


def keep_apart(role: iam.IRole, data: s3.IBucket, stages: Iterable[str]) -> None:
    """Of Longhaul's own prefix, deny what belongs to the jobs of these stages.

    A `Deny`, because whole buckets are what the settings open, and so are the statements of users.
    """
    folders = [_objects(data, stage_folders(stage)) for stage in stages]
    # All: a version is read with `GetObjectVersion` alone, in each bucket.
    _deny(role, "NotOfOtherStages", ["s3:*"], folders)


def read_objects(role: iam.IRole, data: s3.IBucket, prefixes: Sequence[str]) -> None:
    """Stage inputs. Names of objects are listed in the whole bucket.

    With `s3:prefix` as a condition, S3 returns 403 instead of 404 for a missing file.
    """
    if prefixes:
        objects = [_objects(data, each) for each in prefixes]
        allow(role, "ReadObjects", ["s3:GetObject"], objects, wildcards=WHY_ANY_KEY)
        allow(role, "ListInputs", ["s3:ListBucket"], _buckets_of(data, prefixes))


def read_secrets(role: iam.IRole, secrets: Iterable[str]) -> None:
    """Read the value of each, as a stage's settings name it, and of no other.

    A secret that a customer's key encrypts needs a right to that, which the stage's `policies`
    give: the ARN of a secret does not say its key.
    """
    refs = [SecretRef.parse(each) for each in secrets]
    for sid, service, action in (
        ("ReadSecrets", "secretsmanager", "secretsmanager:GetSecretValue"),
        ("ReadParameters", "ssm", "ssm:GetParameter"),
    ):
        arns = dict.fromkeys(each.arn for each in refs if each.service == service)
        if arns:
            allow(role, sid, [action], [*arns])


def read_code(role: iam.IRole, data: s3.IBucket, places: Iterable[str]) -> None:
    """Fetch the job's code that a message names: one file, or one below a prefix."""
    arns = [f"{_arn_of(data, each)}{'*' if each.endswith('/') else ''}" for each in places]
    if arns:
        why = "Names of jobs are their authors' to choose; the prefixes are what the settings open."
        allow(role, "ReadCode", ["s3:GetObject"], arns, wildcards=why)


def use_keys(role: iam.IRole, *, read: Sequence[str], write: Sequence[str]) -> None:
    """Read and write objects that S3 encrypts with these KMS keys, given by ARN.

    A key whose ARN is a token is one of the role's region.

    Uploading a part needs GenerateDataKey; completing the upload needs Decrypt.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuAndPermissions.html
    """
    stack = Stack.of(role)

    def region_of(key: str) -> str:
        return stack.region if Token.is_unresolved(key) else key.split(":")[3]

    for name, actions, keys in (
        ("WriteEncrypted", ["kms:Decrypt", "kms:GenerateDataKey"], write),
        ("ReadEncrypted", ["kms:Decrypt"], [key for key in read if key not in write]),
    ):
        for region in sorted({region_of(key) for key in keys}):
            # A bucket and its key are in one region. Without the condition the role could use the
            # key for anything else.
            if Token.is_unresolved(region):
                suffix, domain = "Here", stack.url_suffix
            else:
                suffix = "".join(part.capitalize() for part in region.split("-"))
                domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
            allow(
                role,
                f"{name}{suffix}",
                actions,
                [key for key in keys if region_of(key) == region],
                conditions={"StringEquals": {"kms:ViaService": f"s3.{region}.{domain}"}},
            )


def use_tables(role: iam.IRole, *, write: Sequence[Table], read: Sequence[Table]) -> None:
    """Read, make and change tables; only read others."""
    # pyiceberg asks for the database at each commit.
    writing = ["glue:GetDatabase", "glue:GetTable", "glue:CreateTable", "glue:UpdateTable"]
    for sid, actions, tables in (
        ("WriteTables", writing, write),
        ("ReadTables", ["glue:GetTable"], read),
    ):
        if tables:
            arns = _arns_of_tables(role, tables)
            allow(role, sid, actions, arns, wildcards=_WHY_ANY_TABLE)


def use_catalog_key(role: iam.IRole, key: str) -> None:
    """Read and write what Glue encrypts in the catalog with this KMS key, given by ARN.

    Glue asks KMS in the caller's name.
    https://docs.aws.amazon.com/glue/latest/dg/encrypt-glue-data-catalog.html
    """
    stack = Stack.of(role)
    allow(
        role,
        "UseCatalogKey",
        ["kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey"],
        [key],
        conditions={"StringEquals": {"kms:ViaService": f"glue.{stack.region}.{stack.url_suffix}"}},
    )


def _arns_of_tables(scope: IConstruct, tables: Sequence[Table]) -> list[str]:
    """A right to a table is also one to its database and the catalog.

    https://docs.aws.amazon.com/glue/latest/dg/glue-specifying-resource-arns.html
    """
    arn = partial(Stack.of(scope).format_arn, service="glue")
    return [
        arn(resource="catalog"),
        *(
            arn(resource="database", resource_name=each)
            for each in dict.fromkeys(db for db, _ in tables)
        ),
        *(arn(resource="table", resource_name="/".join(each)) for each in tables),
    ]


def optimize_tables(
    role: iam.IRole, database: str, tables: Sequence[str], data: s3.IBucket
) -> None:
    """What Glue's optimizers need to compact these tables, and to delete files of theirs.

    https://docs.aws.amazon.com/glue/latest/dg/optimization-prerequisites.html
    """
    allow(
        role,
        "OptimizeTables",
        ["glue:GetTable", "glue:UpdateTable"],
        _arns_of_tables(role, [(database, each) for each in tables]),
    )
    allow(
        role,
        "OptimizeFiles",
        ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
        [data.arn_for_objects(f"{TABLES_PREFIX}{database}/{each}/*") for each in tables],
        wildcards="Glue chooses the names of the files that it writes below a table.",
    )
    allow(role, "ListFiles", ["s3:ListBucket"], [data.bucket_arn])
    allow(
        role,
        "LogOptimizers",
        ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"],
        [
            Stack.of(role).format_arn(
                service="logs",
                resource="log-group",
                resource_name=f"/aws-glue/iceberg-{each}/logs:*",
                arn_format=ArnFormat.COLON_RESOURCE_NAME,
            )
            for each in ("compaction", "retention", "orphan-file-deletion")
        ],
        wildcards="Glue chooses the names of its log streams.",
    )


def stop_tasks(role: iam.IRole, tasks: str) -> None:
    """Stop a task that its own execution may not have stopped, if it is of the attempt."""
    allow(
        role,
        "StopTasks",
        ["ecs:StopTask", "ecs:DescribeTasks"],
        [tasks],
        wildcards=WHY_ANY_TASK,
    )


def find_tasks(role: iam.IRole, cluster_arn: str) -> None:
    """List the tasks that run; who stops them may read which attempt each belongs to."""
    ours = {"ArnEquals": {"ecs:cluster": cluster_arn}}
    why = "ecs:ListTasks knows no resource; the condition names our cluster."
    allow(role, "ListTasks", ["ecs:ListTasks"], ["*"], conditions=ours, wildcards=why)


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


def run_executions(role: iam.IRole, machine: sfn.StateMachine) -> None:
    """Start an attempt, or start it again to see whether it still runs, and see how it ended."""
    executions = Stack.of(machine).format_arn(
        service="states",
        resource="execution",
        resource_name=f"{machine.state_machine_name}:*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    why = "Executions are named at claim; the machine is ours alone."
    allow(role, "StartExecutions", ["states:StartExecution"], [machine.state_machine_arn])
    allow(role, "DescribeExecutions", ["states:DescribeExecution"], [executions], wildcards=why)
