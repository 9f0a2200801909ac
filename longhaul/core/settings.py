"""The settings of a deployed function or task, as one typed value.

The CDK app writes these models as JSON into the one variable `LONGHAUL_SETTINGS` of every function
and task; `runtime_settings()` reads it, once and lazily. What the jobs of a stage have in their
environment is in a second one, which only tasks have. Nothing else reads the environment.
Durations are whole seconds and say so in their name.
"""

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

VARIABLE = "LONGHAUL_SETTINGS"
"""Name of the environment variable that holds `RuntimeSettings` as JSON."""

JOB_VARIABLES = "LONGHAUL_VARIABLES"
"""Name of the one that holds, in a task, each stage's `JobVariables` as JSON. Functions have none:
their environment is small."""

EngineName = Literal["fargate", "emr-serverless"]
Mode = Literal["overwrite", "append", "error", "overwrite_partitions"]
"""What to do when the output exists: replace it, add to it, or refuse.

In a table also: replace the partitions for which the job wrote rows.
"""
Architecture = Literal["arm64", "x86_64"]
SizeName = Literal["tiny", "small", "medium", "large", "xlarge"]
# No hyphen: `<stack>-<stage>-jobs` is then the queue of one stack alone.
StageName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,30}$")]

_WHERE = r"[a-z0-9-]+:\d{12}"
NotifyArn = Annotated[
    str,
    Field(
        pattern=rf"^arn:aws[a-z-]*:((sqs|sns):{_WHERE}:[A-Za-z0-9_-]+(\.fifo)?|"
        rf"events:{_WHERE}:event-bus/[A-Za-z0-9_./-]+)$"
        # At synth, of a target that the same app makes: CloudFormation knows it.
        r"|\$\{Token\["
    ),
]

# Of Athena's names the part that needs no quotes anywhere. Glue takes 255 characters for a table,
# and a dataset adds up to 66.
DATABASE_NAME = r"[a-z0-9_]{1,128}"
TABLE_NAME = r"[a-z0-9_]{1,180}"

_BUCKET = r"([a-z0-9][a-z0-9.-]{1,61}[a-z0-9]|\$\{Token\[[^\]]+\]\})"
_FOLDERS = r"([A-Za-z0-9_-][A-Za-z0-9._=-]*/)"
# `s3://bucket/folder/`, or a folder of the data bucket. It ends with a slash: `jobs` would also
# allow `jobs-of-others`.
Prefix = Annotated[str, Field(pattern=rf"^(s3://{_BUCKET}/{_FOLDERS}*|{_FOLDERS}+)$")]
# Once it is filled it is checked as any output.
OutputTemplate = Annotated[
    str, Field(pattern=rf"^(table:|data:|s3://{_BUCKET}/)([^{{}}]|\{{(label|stage|n)\}})+$")
]

QUEUE_VISIBILITY_S = 120
"""For how long a jobs queue hides what the dispatcher received, unless that extends it."""

SQS_VISIBILITY_CAP_S = 43_200
"""SQS refuses to keep one receive invisible for longer than 12 h, counted from the receive."""


MAX_SLOTS = 10_000
"""Jobs of a stage that may run at once, at most."""


class UnknownStageError(LookupError):
    """No such stage is deployed: the settings are older or newer than the row or the event."""


class Model(BaseModel):
    # Built at first use: no function uses all models, and a cold start has a fifth less to import.
    # Safe with threads since pydantic 2.14 (pydantic/pydantic#13438).
    model_config = ConfigDict(
        extra="forbid", frozen=True, defer_build=True, hide_input_in_errors=True
    )


class LeaseSettings(Model):
    """The timing of the lease. The defaults are for AWS; the local profile uses seconds."""

    # One wait is a tenth of what could be lost by an unseen crash.
    beat_fraction: float = Field(default=0.10, ge=0.02, le=0.5)
    # The first wait, and the shortest. A claim extends its message where the queue's visibility
    # (120 s) would not last until then.
    beat_floor_s: int = Field(default=15, ge=1, le=300)
    # Keeps a 12 h job under 200 beats, and the history of a 7 d job under 25,000 events.
    beat_ceiling_s: int = Field(default=300, ge=1, le=3600)
    # A beat may come a quarter late, plus a minute, before the message shows.
    visibility_factor: float = Field(default=1.25, ge=1)
    # On top of the wait times `visibility_factor`.
    visibility_margin_s: int = Field(default=60, ge=1, le=600)
    # Half an hour before SQS's cap: room for several failed beats.
    hand_over_age_s: int = Field(default=41_400, ge=1, le=SQS_VISIBILITY_CAP_S - 300)
    # Fargate starts in 30-90 s; after ten minutes without a first report a task never starts.
    start_timeout_s: int = Field(default=600, ge=1)
    # Full jitter over base * 2 ** failures. A first interruption is tried again at once; with 0,
    # everything is.
    backoff_base_s: int = Field(default=10, ge=0)
    # The longest back-off, however many attempts have failed.
    backoff_cap_s: int = Field(default=900, ge=1, le=43_200)
    # ECS sends SIGTERM, and SIGKILL this much later. 120 s is Fargate's maximum.
    stop_timeout_s: int = Field(default=120, ge=1, le=120)
    # On top of stop_timeout_s before a stopped attempt's successor may start.
    stop_margin_s: int = Field(default=30, ge=0)
    # A message without a free slot is hidden for a twentieth of its likely wait, within these
    # bounds: what one waiting message costs, and how late it can learn of more slots.
    defer_min_s: int = Field(default=15, ge=1)
    # See `defer_min_s`.
    defer_max_s: int = Field(default=1_800, ge=1, le=21_600)
    # Attempts that the platform ended (Spot, infrastructure) do not count as failures, but not
    # without end.
    max_interruptions: int = Field(default=20, ge=1)
    # A job for which AWS has no room for this long is dead-lettered.
    max_unplaced_s: int = Field(default=604_800, ge=1)
    # After this number of interruptions, or start_timeout_s without a place, a job runs on demand.
    spot_interruptions: int = Field(default=2, ge=1)
    # How often the runner looks at its job, and its shortest wait between two reports, in whose
    # answers it sees a cancel or a lost lease.
    progress_period_s: float = Field(default=5, gt=0, le=60)
    # A message is replaced by a copy well below maxReceiveCount (1000), and at half of the queue's
    # retention: one that gets much older is in trouble, and people have six days.
    renew_receives: int = Field(default=900, ge=1, le=990)
    # As `renew_receives`, by the age of the message.
    renew_age_s: int = Field(default=7 * 86_400, ge=1)
    # A released job whose message has not come this long after its back-off gets a copy.
    missing_after_s: int = Field(default=6 * 3_600, ge=1)


class RequestLimits(Model):
    """The most that a request may ask for. A prefix may be a folder of the data bucket.

    Functions and tasks know its bucket. Judged when a run starts (`longhaul.core.policy`). The
    largest cost of one job is `max_attempts` times `max_timeout_s` of the size `max_size`.
    """

    # Out of memory also grows a job to this size and no further.
    max_size: SizeName = "xlarge"
    # A forgotten job still ends. Longer jobs raise it.
    max_timeout_s: int = Field(default=86_400, ge=1, le=604_800)
    # A job that hangs holds its slot for this long.
    max_stall_timeout_s: int = Field(default=21_600, ge=1, le=604_800)
    # Failures alone: interruptions have a limit of their own, `lease.max_interruptions`.
    max_attempts: int = Field(default=10, ge=1, le=100)
    # Names of the catalogue, and prefixes `s3://…/` of code within `job_prefixes`. None: all of
    # them.
    jobs: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    # `s3://bucket/…/`. None: wherever the settings of the stack allow. The role of the stage opens
    # these alone, and what the stages before it may write.
    input_prefixes: tuple[Prefix, ...] | None = None
    # As `input_prefixes`, to write and to read.
    output_prefixes: Annotated[tuple[Prefix, ...], Field(min_length=1)] | None = None


class FollowOnSettings(Model):
    """Where jobs write that follow from another stage, or join, and name no output themselves."""

    # A table, `table:NAME` or `table://DATABASE/NAME`, or a prefix, `data:daily/{label}/{stage}/`:
    # `{label}` is the job's (`%2F` for a slash), or the id with which its tree began, `{n}` its
    # place among those that were emitted (`3`, and `3-1` within a group of a group). None: each
    # writes below a prefix of its own.
    output: OutputTemplate | None = None
    # None: jobs that share a table add to it (append), and a prefix that another job has written is
    # refused (error). Only a join may replace what is there.
    mode: Mode | None = None

    @property
    def used_mode(self) -> Mode:
        return self.mode or ("append" if (self.output or "").startswith("table:") else "error")


class StageSettings(Model):
    """One queue, its slots, and what runs there: the part of a stage that its settings show.

    `AdvancedStageSettings` has the rest.
    """

    # Part of its jobs' keys, its queues' names and the stack's outputs.
    name: StageName = "main"
    # What runs when a request names no job: follow-ons of another stage do not.
    job: str | None = None
    # How many jobs of this stage may run at once.
    slots: int = Field(default=10, ge=1, le=MAX_SLOTS)
    # vCPU, memory and disk, for requests that name none: see the sizes.
    size: SizeName = "small"
    # The next stages after a success: each gets what the job emitted for it, or one job with the
    # output as its input.
    next: tuple[StageName, ...] = ()
    # Where follow-ons write that name no output, and the join.
    follow_on: FollowOnSettings = FollowOnSettings()
    # One job when all that descends from one job of an earlier stage has passed the stage before:
    # true, or the name of the earlier stage, which is needed where more than one can split.
    join: bool | StageName = False


class AdvancedStageSettings(Model):
    """What a stage has under `advanced`, as far as functions and tasks need it."""

    # For requests that name none, as are the next ones.
    engine: EngineName = "fargate"
    # Fargate Spot: about a third of the price, and two minutes' notice.
    spot: bool = False
    # At most 7 days: Step Functions' history has 25,000 events.
    timeout_s: int = Field(default=21_600, ge=1, le=604_800)
    # Without progress for this long a job is stopped and retried.
    stall_timeout_s: int = Field(default=900, ge=1, le=604_800)
    # Failures before the dead-letter queue.
    max_attempts: int = Field(default=3, ge=1, le=100)
    # The most that a request may ask for.
    limits: RequestLimits = RequestLimits()
    # Gets an event when a run of a job has ended: the ARN of an SQS queue, an SNS topic or an
    # EventBridge bus, also of another stack, account or region (docs/reference/events.md).
    notify: NotifyArn | None = None
    # `notify` also gets OpenLineage's events about each run: what it read and wrote, for Marquez,
    # DataHub and others.
    openlineage: bool = False
    # `notify` also gets an event when the tree of a job has ended: all that descends from a job
    # that no other job led to.
    tree_ended: bool = False
    # Nothing new starts, as during a pause: what runs finishes, and what waits stays in the queue.
    # The step before the stage is taken out of the settings.
    retired: bool = False


class Stage(AdvancedStageSettings, StageSettings):
    """A stage as deployed: what functions and tasks need of its settings, with its queues."""

    join: bool = False
    # Of a join: the stage whose jobs it belongs to.
    opener: StageName | None = None

    # Queues have fixed names, `<stack>-<stage>-jobs` and `<stack>-<stage>-dead-letters`, for people
    # and for `events/`.
    queue_url: str
    dead_letter_queue_url: str

    @property
    def tells_trees(self) -> bool:
        return self.notify is not None and self.tree_ended

    @property
    def is_removed(self) -> bool:
        """Whether a deploy took the stage out of the settings: it has no queues any more."""
        return not self.queue_url


class PathPolicy(Model):
    """Where a request may read and write.

    The data bucket is always allowed, except for its `longhaul/` prefix, which is ours.
    """

    data_bucket: str
    input_buckets: tuple[str, ...] = ()
    output_buckets: tuple[str, ...] = ()
    # Where a request may take a job's code from, each `s3://bucket/…/`. None: the catalogue alone.
    job_prefixes: tuple[str, ...] = ()
    # Glue databases whose tables a request may name; the stack's own is the first, if it has one.
    table_databases: tuple[str, ...] = ()
    # `file:` paths make sense only where the runner shares a disk with the producer.
    allow_file: bool = False


class TaskSize(Model):
    """What a task of one size gets. 1024 CPU units are one vCPU."""

    cpu: int
    memory_mib: int
    disk_gib: int


class TaskSettings(Model):
    """What tasks get: for the error of a disk that is too small, and for costs."""

    architecture: Architecture = "arm64"
    public_ip: bool = True
    # Empty where they are unknown.
    sizes: dict[SizeName, TaskSize] = Field(default_factory=dict)

    @property
    def disk_gib(self) -> dict[SizeName, int]:
        """Each size's disk."""
        return {name: size.disk_gib for name, size in self.sizes.items()}


class JobVariables(Model):
    """What the jobs of a stage find in their environment, by the names of variables."""

    environment: dict[str, str] = Field(default_factory=dict)
    # Each as `longhaul.core.secret_refs` reads it. The values are read when an attempt begins.
    secrets: dict[str, str] = Field(default_factory=dict)


class EmrApplication(Model):
    """The application on which jobs of the engine `emr-serverless` run."""

    application_arn: str
    # Where Spark writes before a publication, and where inputs are copied that it cannot read in
    # place: `s3://bucket/prefix/`, or `file:` for the driver's scratch folder, on a disk that
    # executors share.
    work_area: str

    @property
    def application_id(self) -> str:
        return self.application_arn.rpartition("/")[2]


class RuntimeSettings(Model):
    leases_table: str
    stages: tuple[Stage, ...] = Field(min_length=1)
    paths: PathPolicy
    # Names in `longhaul/catalogue/`: the dispatcher has no code of the jobs, but refuses unknown
    # names.
    jobs: tuple[str, ...] = Field(min_length=1)
    lease: LeaseSettings = LeaseSettings()
    tasks: TaskSettings = TaskSettings()
    # The machine is named after the stack, so that functions which it names can know its ARN
    # without a cycle in the template.
    state_machine_arn: str
    cluster_arn: str
    # Where the tasks' logs go; a task's stream is `job/job/<task id>` (prefix, container, task).
    job_log_group: str
    # None: the stack has no such engine.
    emr_serverless: EmrApplication | None = None
    # The stack's name: two stacks in one account must not write to each other's metrics.
    metrics_namespace: str = "Longhaul"
    # Where AWS is, if not at the SDK's default: `sam local invoke` against the embedded AWS sets
    # it.
    endpoint_url: str | None = None

    @property
    def engines(self) -> tuple[EngineName, ...]:
        """What the stack can run jobs on."""
        return ("fargate", "emr-serverless") if self.emr_serverless else ("fargate",)

    @property
    def has_tiny(self) -> bool:
        """Whether the stack has the Lambda function that runs jobs of the size `tiny`."""
        return "tiny" in self.tasks.sizes

    @property
    def near_retention_s(self) -> int:
        """Age in seconds at which a message should have been renewed, and was not.

        Its renewal was due, and so was the hand-over that leads to it.
        """
        return self.lease.renew_age_s + self.lease.hand_over_age_s

    def stage(self, name: str) -> Stage:
        """The stage of that name.

        Raises:
            UnknownStageError: no such stage is deployed.
        """
        names = [stage.name for stage in self.stages]
        if name not in names:
            raise UnknownStageError(f"no stage {name!r}; deployed: {', '.join(names)}")
        return self.stage_or_removed(name)

    def stage_or_removed(self, name: str) -> Stage:
        """The stage of that name, for jobs that may be older than the settings.

        A stage that is not deployed any more has no queues, and nothing follows from its jobs.
        """
        for stage in self.stages:
            if stage.name == name:
                return stage
        return Stage(name=name, slots=1, retired=True, queue_url="", dead_letter_queue_url="")

    def stage_of_queue(self, queue_arn: str) -> Stage:
        """The stage whose jobs queue this is.

        The name decides: `events/` then serve any account and region.

        Raises:
            UnknownStageError: the queue belongs to no stage.
        """
        name = queue_arn.rpartition(":")[2]
        for stage in self.stages:
            if stage.queue_url.rpartition("/")[2] == name:
                return stage
        raise UnknownStageError(f"no stage reads from the queue {name!r}")


@lru_cache(maxsize=1)
def runtime_settings() -> RuntimeSettings:
    """The settings of this process, read once.

    Raises:
        RuntimeError: the variable is missing; the process was not started by the stack.
        pydantic.ValidationError: the variable does not hold valid settings.
    """
    text = os.environ.get(VARIABLE)
    if text is None:
        raise RuntimeError(f"{VARIABLE} is not set: start this through the stack or `longhaul up`")
    # Synthesis forbids unknown settings. Here they are those of a newer version: for the seconds of
    # a deploy or a rollback, old code has the new environment.
    return RuntimeSettings.model_validate_json(text, extra="ignore")


def job_variables() -> Mapping[StageName, JobVariables]:
    """By stage, what its jobs find in their environment. Stages without any are not there.

    Raises:
        pydantic.ValidationError: the variable does not hold such.
    """
    return _VARIABLES.validate_json(os.environ.get(JOB_VARIABLES, "{}"), extra="ignore")


_VARIABLES: Final = TypeAdapter(dict[StageName, JobVariables])
