"""The settings of a deployment: one typed, frozen value, validated once.

The key `longhaul` of `cdk.json` holds the usual settings; `-c longhaul='{…}'` or `CDK_CONTEXT_JSON`
override single ones (`longhaul.config.cdk_context`). Imports no CDK.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from longhaul.config.beat_limits import check_beats, check_hand_over
from longhaul.config.rights import TO_COME, PolicyName, bucket_in
from longhaul.config.sizes import Sizes
from longhaul.config.stages import Prefix, StageDeployment, check_pipelines, pascal, queue_prefix
from longhaul.domain.beat import least_stall_timeout_s
from longhaul.domain.secret_refs import SecretRef
from longhaul.domain.tables import TablePath
from longhaul.engines.emr_serverless.settings import EmrSettings
from longhaul.settings import DATABASE_NAME, TABLE_NAME, Architecture, LeaseSettings, Model

CONTEXT_KEY: Final = "longhaul"
"""The key of the CDK context that holds the settings."""

SWEEP_PERIOD: Final = timedelta(minutes=5)
"""The clock starts a sweep this often."""

MAX_QUEUE_NAME: Final = 80

MAX_SCHEDULE_NAME: Final = 64

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

    @model_validator(mode="after")
    def _named_whole(self) -> "NetworkSettings":
        if self.vpc_id is not None and not self.subnet_ids:
            raise ValueError(
                "subnet_ids is missing: an existing vpc_id needs the subnets in which tasks may run"
            )
        if self.vpc_id is None and self.subnet_ids:
            raise ValueError("vpc_id is missing: subnet_ids belong to an existing VPC")
        if self.vpc_id is not None and self.zones:
            raise ValueError("zones are of the VPC of our own: subnet_ids name those of yours")
        if self.vpc_id is not None and self.flow_logs:
            raise ValueError("flow_logs belong to the VPC of our own: vpc_id names one of yours")
        if self.vpc_id is None and not self.assign_public_ip:
            raise ValueError(
                "assign_public_ip must be true without a vpc_id: "
                "the VPC of our own has no NAT, so a task without a public IP reaches nothing"
            )
        return self


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

    @model_validator(mode="after")
    def _stages_apart(self) -> "Settings":
        taken = {"Jobs": "the first stage's outputs", "DeadLetter": "the first stage's outputs"}
        for stage in self.stages:
            name = pascal(stage.name)
            if name in taken:
                raise ValueError(
                    f"stage {stage.name!r} clashes with {taken[name]}: a stage's name is part of "
                    f"its jobs' keys, and as {name} of its outputs, so both must be unique"
                )
            taken[name] = f"stage {stage.name!r}"
        return self

    @model_validator(mode="after")
    def _stages_chained(self) -> "Settings":
        check_pipelines(self.stages)
        return self

    @model_validator(mode="after")
    def _engines_deployed(self) -> "Settings":
        if self.sizes.tiny and self.image_compression != "gzip":
            raise ValueError(
                "sizes.tiny needs image_compression gzip: "
                "AWS does not say that Lambda takes images packed otherwise"
            )
        for stage in self.stages:
            if stage.size == "tiny" and (
                self.sizes.tiny is None or stage.advanced.engine != "fargate"
            ):
                raise ValueError(
                    f"stage {stage.name!r} has the size tiny, which needs the setting sizes.tiny "
                    "({} will do) and no other engine"
                )
        if self.emr_serverless is not None:
            self.emr_serverless.check(self.sizes, allow_file_paths=self.allow_file_paths)
            return self
        for stage in self.stages:
            if stage.advanced.engine == "emr-serverless":
                raise ValueError(
                    f"stage {stage.name!r} runs on emr-serverless, "
                    "which needs the setting emr_serverless ({} will do)"
                )
        return self

    @model_validator(mode="after")
    def _beats_fit_the_history(self) -> "Settings":
        # The local profile beats every few seconds, and its jobs last for minutes.
        if not self.allow_file_paths:
            check_beats(self.lease)
            check_hand_over(self.lease)
        return self

    @model_validator(mode="after")
    def _stalls_are_no_late_reports(self) -> "Settings":
        least_s = least_stall_timeout_s(self.lease)
        for stage in self.stages:
            if (stall_s := stage.advanced.stall_timeout_s) < least_s:
                raise ValueError(
                    f"stage {stage.name!r}: stall_timeout_s ({stall_s}) is too short for jobs that "
                    f"report every {self.lease.progress_period_s:g} s "
                    f"(lease.progress_period_s); at least {least_s}"
                )
        return self

    @model_validator(mode="after")
    def _triggers_readable(self) -> "Settings":
        known = (*self.input_buckets, *self.output_buckets)
        for stage in self.stages:
            bucket = stage.advanced.on_object.bucket if stage.advanced.on_object else None
            if bucket is not None and bucket not in known:
                raise ValueError(
                    f"stage {stage.name!r} has an on_object for the bucket {bucket!r}, which jobs "
                    "may not read; add it to input_buckets"
                )
        return self

    @model_validator(mode="after")
    def _prefixes_known(self) -> "Settings":
        writable = self.output_buckets
        for stage in self.stages:
            for name, prefixes, known, setting in (
                (
                    "input_prefixes",
                    stage.advanced.limits.input_prefixes,
                    (*self.input_buckets, *writable),
                    "input_buckets or output_buckets",
                ),
                (
                    "output_prefixes",
                    stage.advanced.limits.output_prefixes,
                    writable,
                    "output_buckets",
                ),
            ):
                for prefix in prefixes or ():
                    if (bucket := bucket_in(prefix)) and bucket not in known:
                        raise ValueError(
                            f"stage {stage.name!r} has {prefix!r} in limits.{name}, and jobs may "
                            f"not use the bucket {bucket!r}; add it to {setting}"
                        )
        return self

    @model_validator(mode="after")
    def _roles_here(self) -> "Settings":
        for stage in self.stages:
            roles = [stage.advanced.role] if stage.advanced.role else []
            for what, arns, why in (
                ("role", roles, "services take roles of their own account alone"),
                (
                    "managed policy",
                    stage.advanced.managed_policies,
                    "roles take those of theirs, or AWS's",
                ),
            ):
                for account in (each.split(":")[4] for each in arns if each.startswith("arn:")):
                    if account != "aws" and self.account not in (None, account):
                        raise ValueError(
                            f"stage {stage.name!r} has a {what} of the account {account}, and the "
                            f"stack is in {self.account}: {why}"
                        )
        return self

    @model_validator(mode="after")
    def _secrets_reachable(self) -> "Settings":
        for stage in self.stages:
            for name, text in stage.advanced.secrets.items():
                ref = SecretRef.parse(text)
                if ref.region and self.region not in (None, ref.region):
                    raise ValueError(
                        f"stage {stage.name!r} has a secret {name} in {ref.region}, and the stack "
                        f"is in {self.region}: name one of there, such as a replica"
                    )
                if ref.service == "ssm" and self.emr_serverless is not None:
                    raise ValueError(
                        f"stage {stage.name!r} has the parameter of SSM {name} in its secrets, "
                        "which jobs on emr-serverless do not reach: keep it in Secrets Manager"
                    )
        return self

    @model_validator(mode="after")
    def _queues_nameable(self) -> "Settings":
        for stage in self.stages:
            longest = f"{queue_prefix(self.stack_name, stage)}-dead-letters"
            if len(longest) > MAX_QUEUE_NAME:
                raise ValueError(
                    f"stack_name and the name of stage {stage.name!r} together make a queue name "
                    f"of {len(longest)} characters ({longest}); SQS allows {MAX_QUEUE_NAME}"
                )
        return self

    @model_validator(mode="after")
    def _schedules_nameable(self) -> "Settings":
        # A schedule has the name with which its stage's queues begin.
        for stage in self.stages:
            name = queue_prefix(self.stack_name, stage)
            if stage.schedule and len(name) > MAX_SCHEDULE_NAME:
                raise ValueError(
                    f"stage {stage.name!r} has a schedule, whose name would have {len(name)} "
                    f"characters ({name}); EventBridge Scheduler allows {MAX_SCHEDULE_NAME}: "
                    "shorten the stack_name, or give the stage a shorter name or queue_prefix"
                )
        return self

    @model_validator(mode="after")
    def _queues_apart(self) -> "Settings":
        taken: dict[str, str] = {}
        for stage in self.stages:
            prefix = queue_prefix(self.stack_name, stage)
            if stage.advanced.queue_prefix is None and "-" in stage.name:
                before, _, name = stage.name.rpartition("-")
                raise ValueError(
                    f"stage {stage.name!r} would have the queue {prefix}-jobs, as would a stage "
                    f"{name!r} of a stack '{self.stack_name}-{before}'; name the stage without a "
                    f"hyphen, or, to keep queues that are deployed, give it the queue_prefix "
                    f"{prefix!r}"
                )
            if prefix in taken:
                raise ValueError(
                    f"stage {stage.name!r} would have the queue {prefix}-jobs, "
                    f"which is that of stage {taken[prefix]!r}; give it another queue_prefix"
                )
            taken[prefix] = stage.name
        return self

    @model_validator(mode="after")
    def _notices_leave(self) -> "Settings":
        ours = {
            f"{queue_prefix(self.stack_name, stage)}-{kind}": stage.name
            for stage in self.stages
            for kind in ("jobs", "dead-letters")
        }
        for stage in self.stages:
            if stage.advanced.notify is None:
                continue
            _, _, service, region, account, name = stage.advanced.notify.split(":")
            is_here = self.account in (None, account) and self.region in (None, region)
            if service == "sqs" and name in ours and is_here:
                raise ValueError(
                    f"stage {stage.name!r} would notify the queue {name}, which is that of stage "
                    f"{ours[name]!r}: its events are no jobs; jobs that follow are the `next` of a "
                    "stage"
                )
        return self

    @model_validator(mode="after")
    def _code_apart_from_outputs(self) -> "Settings":
        for prefix in self.job_prefixes:
            bucket, _, folder = prefix.removeprefix("s3://").partition("/")
            if prefix.startswith("s3://") and not folder and bucket in self.output_buckets:
                raise ValueError(
                    f"job_prefixes has the whole bucket {bucket!r}, which jobs write "
                    "(output_buckets): what a job writes there could be run; name a folder of it"
                )
        return self

    @model_validator(mode="after")
    def _named_once(self) -> "Settings":
        # Each of these is the name of a construct.
        for setting in ("input_buckets", "output_buckets", "optimized_tables"):
            twice = [name for name, n in Counter(getattr(self, setting)).items() if n > 1]
            if twice:
                raise ValueError(f"{setting} names {', '.join(twice)} twice: name it once")
        return self

    @model_validator(mode="after")
    def _databases_known(self) -> "Settings":
        own = database_name(self.stack_name)
        if self.own_database and own in self.table_databases:
            raise ValueError(
                f"table_databases names {own!r}, which is the stack's "
                "own: the stack makes it, and it is always allowed; take it out, or set "
                "own_database to false, if it is there already"
            )
        if self.optimized_tables and not self.own_database:
            raise ValueError(
                "optimized_tables are tables of the stack's own database, and own_database is "
                "false; switch the optimizers on in Glue"
            )
        if self.catalog_key and not self.databases:
            raise ValueError(
                "catalog_key is the key of tables, of which there are none: own_database is "
                "false, and table_databases is empty"
            )
        if self.lake_formation and not self.databases:
            raise ValueError(
                "lake_formation grants rights in databases, of which there are none: "
                "own_database is false, and table_databases is empty"
            )
        for stage in self.stages:
            output = stage.follow_on.output
            if output and TablePath.of(output).database not in self.databases:
                raise ValueError(
                    f"stage {stage.name!r} has the follow_on.output {output}, in a database that "
                    f"is neither the stack's own, {own!r}, nor in table_databases"
                )
        return self

    @model_validator(mode="after")
    def _keys_of_known_buckets(self) -> "Settings":
        known = sorted({*self.input_buckets, *self.output_buckets, *self.code_buckets})
        for bucket in self.kms_keys:
            if bucket not in known:
                raise ValueError(
                    f"kms_keys names the bucket {bucket!r}, which no job reads or writes; "
                    f"there are: {', '.join(known) or 'none'} (input_buckets, output_buckets and "
                    "the buckets of job_prefixes)"
                )
        return self

    @property
    def databases(self) -> tuple[str, ...]:
        """The Glue databases that jobs may use; the stack's own is the first, if it has one."""
        own = (database_name(self.stack_name),) if self.own_database else ()
        return (*own, *self.table_databases)

    @property
    def code_buckets(self) -> tuple[str, ...]:
        """The buckets of `job_prefixes`, apart from the data bucket."""
        prefixes = (each for each in self.job_prefixes if each.startswith("s3://"))
        return tuple(prefix.removeprefix("s3://").partition("/")[0] for prefix in prefixes)

    def keys_of(self, buckets: Iterable[str]) -> tuple[str, ...]:
        """The KMS keys of these buckets."""
        return tuple(dict.fromkeys(key for each in buckets for key in self.kms_keys.get(each, ())))


def database_name(stack_name: str) -> str:
    """The Glue database of the stack's own: Glue and Athena know lower case alone."""
    return stack_name.lower().replace("-", "_")


def code_prefix(stack_name: str) -> str:
    """The prefix of the stack's own in the account's bucket of assets."""
    return f"longhaul/{stack_name}/"
