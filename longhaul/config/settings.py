"""The settings of a deployment: one typed, frozen value.

The key `longhaul` of `cdk.json` holds the usual settings; `-c longhaul='{…}'` or `CDK_CONTEXT_JSON`
override single ones (`longhaul.config.cdk_context`). What they mean for each other is in
`longhaul.config.rules`. Imports no CDK.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Final, Literal

from pydantic import Field

from longhaul.config.sizes import Sizes
from longhaul.config.stages import TO_COME, PolicyName, StageDeployment
from longhaul.core.settings import (
    DATABASE_NAME,
    TABLE_NAME,
    Architecture,
    LeaseSettings,
    Model,
    Prefix,
)
from longhaul.engines.emr_serverless.settings import EmrSettings

CONTEXT_KEY: Final = "longhaul"
"""The key of the CDK context that holds the settings."""

SWEEP_PERIOD: Final = timedelta(minutes=5)
"""The clock starts a sweep this often."""

LogRetention = Literal[1, 3, 5, 7, 14, 30, 60, 90, 180, 365, 400, 731, 1096, 1827, 2557, 3653]
BucketName = Annotated[str, Field(pattern=rf"^([a-z0-9][a-z0-9.-]{{1,61}}[a-z0-9]|{TO_COME})$")]

CodeSigningArn = Annotated[
    str,
    Field(
        pattern=r"^arn:aws[a-z-]*:lambda:[a-z0-9-]+:\d{12}:code-signing-config:csc-[a-z0-9]{17}$"
    ),
]

# A key's ARN, and no alias: a policy on an alias grants nothing.
KeyArn = Annotated[
    str,
    Field(pattern=rf"^(arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{{12}}:key/[A-Za-z0-9-]+|{TO_COME})$"),
]

DatabaseName = Annotated[str, Field(pattern=f"^{DATABASE_NAME}$")]

TableName = Annotated[str, Field(pattern=f"^{TABLE_NAME}$")]


class NetworkSettings(Model):
    """A VPC of the stack's own (public subnets, no NAT), or an existing one that is named here."""

    # Two zones: a task that finds no capacity in one is started in the other.
    availability_zones: int = Field(default=2, ge=1, le=3)
    # The zones of the stack's own VPC by name, in the place of a number: where one of them lacks
    # what tasks need, as one of us-east-1 lacks arm64.
    zones: tuple[Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z0-9]+)+$")], ...] = ()
    # None: a VPC of the stack's own.
    vpc_id: Annotated[str, Field(pattern=r"^vpc-[0-9a-f]{8,17}$")] | None = None
    # Named, not looked up: a look-up would need credentials at synth.
    subnet_ids: tuple[Annotated[str, Field(pattern=r"^subnet-[0-9a-f]{8,17}$")], ...] = ()
    # False for private subnets, which then need their own way to S3, DynamoDB, ECR, CloudWatch Logs
    # and, for outputs that are tables, Glue, for secrets Secrets Manager or SSM.
    assign_public_ip: bool = True
    # Log every connection of the stack's own VPC, accepted or not.
    flow_logs: bool = False


class Settings(Model):
    """All of a deployment: the keys of `longhaul.toml`, and the `settings` of the construct."""

    # Part of every task family's name, and a name in CloudFormation.
    stack_name: str = Field(default="Longhaul", pattern=r"^[A-Za-z][A-Za-z0-9-]{0,59}$")
    # None: the CDK CLI decides at deploy.
    account: Annotated[str, Field(pattern=r"^\d{12}$")] | None = None
    # As `account`.
    region: Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")] | None = None
    # Of functions and tasks. arm64 costs a fifth less.
    architecture: Architecture = "arm64"
    # Of functions, tasks and executions.
    log_retention_days: LogRetention = 30
    # Of the functions. Tasks log at INFO.
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    # Get the alarms by email, once they have confirmed the one that SNS sends them.
    alarm_emails: tuple[Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+$")], ...] = ()
    # The times of heartbeat, back-off, hand-over and renewal.
    lease: LeaseSettings = LeaseSettings()
    # Queues, slots, defaults and limits; each leads to others, or to none.
    stages: tuple[StageDeployment, ...] = Field(default=(StageDeployment(),), min_length=1)
    # Allowed beside the data bucket, which is always allowed.
    input_buckets: tuple[BucketName, ...] = ()
    # As `input_buckets`, to write and to read.
    output_buckets: tuple[BucketName, ...] = ()
    # Glue databases of the account whose tables jobs may write and read, beside the stack's own,
    # which is named after the stack: `Longhaul-b` has `longhaul_b`.
    table_databases: tuple[DatabaseName, ...] = ()
    # False: tables go to those of table_databases, or nowhere (docs/outputs.md).
    own_database: bool = True
    # Grant the roles what they need in Lake Formation. CloudFormation's role must be an
    # administrator of the lake (docs/outputs.md).
    lake_formation: bool = False
    # The customer's KMS key of the account's Glue catalog: the roles that use tables need it.
    catalog_key: KeyArn | None = None
    # Tables of the stack's own database that Glue compacts and cleans up. A table has to exist when
    # it is named here.
    optimized_tables: tuple[TableName, ...] = ()
    # Where a message may take a job's code from: `s3://our-code/production/`, or `jobs/` in the
    # data bucket. Who can write there can run code under a stage's role.
    job_prefixes: tuple[Prefix, ...] = ()
    # Bucket → the customer's KMS keys of its objects, older ones too.
    kms_keys: dict[BucketName, Annotated[tuple[KeyArn, ...], Field(min_length=1)]] = Field(
        default_factory=dict
    )
    # A customer's KMS key for the data bucket, all logs and the alarms' topic. Its policy must let
    # CloudWatch use it (docs/internals/security.md).
    kms_key: KeyArn | None = None
    # For so long the data bucket keeps what was deleted or overwritten. None: not at all.
    versions_days: int | None = Field(default=None, ge=1)
    # A bucket of the account that gets the data bucket's access logs, below `<stack>/data/`.
    access_log_bucket: BucketName | None = None
    # A managed policy that bounds every role, by its name or ARN (docs/deploy.md).
    permissions_boundary: PolicyName | None = None
    # How the name of every role begins, where an account allows no others.
    role_name_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9+=,.@_-]{1,30}$")] | None = None
    # The path of every role, where an account asks for one.
    role_path: Annotated[str, Field(pattern=r"^/([A-Za-z0-9._+=,@-]+/)*$", max_length=512)] = "/"
    # Of the CDK's bootstrap with which the stack is deployed.
    bootstrap_qualifier: str = Field(default="hnb659fds", pattern=r"^[A-Za-z0-9_-]{1,10}$")
    # Only where the runner shares a disk with the producer: the local profile.
    allow_file_paths: bool = False
    # What a task of each size gets.
    sizes: Sizes = Sizes()
    # Where tasks run.
    network: NetworkSettings = NetworkSettings()
    # Let the functions run in the subnets of tasks. The VPC must be one of yours, with a NAT or all
    # endpoints (docs/deploy.md).
    functions_in_vpc: bool = False
    # A code signing configuration of Lambda, which functions must then pass. The pipeline that
    # deploys signs.
    code_signing: CodeSigningArn | None = None
    # None: the template holds nothing of this engine.
    emr_serverless: EmrSettings | None = None
    # `zstd` unpacks faster, and needs BuildKit and containerd's image store
    # (docs/internals/containers.md).
    image_compression: Literal["gzip", "zstd"] = "gzip"
    # The base of the job's image: Debian or a relative of it, with `python`.
    python_image: Annotated[str, Field(min_length=1)] | None = None
    # Where pip takes packages from when the image is built. Without a password, which the image
    # would show.
    pip_index: Annotated[str, Field(pattern=r"^https?://[^\s@]+$")] | None = None

    @property
    def databases(self) -> tuple[str, ...]:
        """The Glue databases that jobs may use; the stack's own is the first, if it has one."""
        own = (database_name(self.stack_name),) if self.own_database else ()
        return tuple(dict.fromkeys((*own, *self.table_databases)))

    def keys_of(self, buckets: Iterable[str]) -> tuple[str, ...]:
        """The KMS keys of these buckets."""
        return tuple(dict.fromkeys(key for each in buckets for key in self.kms_keys.get(each, ())))


def database_name(stack_name: str) -> str:
    """The Glue database of the stack's own: Glue and Athena know lower case alone."""
    return stack_name.lower().replace("-", "_")


def code_prefix(stack_name: str) -> str:
    """The prefix of the stack's own in the account's bucket of assets."""
    return f"longhaul/{stack_name}/"
