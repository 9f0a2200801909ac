"""What a deployed part knows about its surroundings, as one typed value.

The CDK app writes these models as JSON into the one variable `LONGHAUL_SETTINGS` of every function and task; `runtime_settings()` reads it, once and
lazily. Nothing else reads the environment. Durations are whole seconds and say so in their name.
"""

import os
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

VARIABLE = "LONGHAUL_SETTINGS"
"""Name of the environment variable that holds `RuntimeSettings` as JSON."""

Engine = Literal["fargate", "emr-serverless"]
Architecture = Literal["arm64", "x86_64"]
SizeName = Literal["small", "medium", "large", "xlarge"]
StageName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]

SQS_VISIBILITY_CAP_S = 43_200
"""SQS refuses to keep one receive invisible for longer than 12 h, counted from the receive."""


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LeaseSettings(Model):
    """The numbers of the lease. The defaults are AWS's scale; the local profile uses seconds."""

    # One wait is a tenth of what could be lost: recovery from a crash that nobody sees stays in proportion to the work.
    beat_fraction: float = Field(default=0.10, gt=0, le=0.5)
    beat_floor_s: int = Field(default=15, ge=1, le=300)
    # 5 min keeps a 12 h job under 200 beats, and the history of a 7 d job under 25,000 events (9 a beat).
    beat_ceiling_s: int = Field(default=300, ge=1, le=3600)
    # A beat may come a quarter late, plus a minute for Lambda cold starts and retries, before the message shows.
    visibility_factor: float = Field(default=1.25, ge=1)
    visibility_margin_s: int = Field(default=60, ge=1, le=600)
    # Half an hour before SQS's cap: room for several failed beats before the message would show by itself.
    hand_over_age_s: int = Field(default=41_400, ge=1, le=SQS_VISIBILITY_CAP_S - 300)
    # Fargate starts in 30-90 s; ten minutes without a first word is a task that will never start.
    start_timeout_s: int = Field(default=600, ge=1)
    # After a beat that failed in spite of its retries: soon, because part of the lease is already used up.
    skip_wait_s: int = Field(default=15, ge=1, le=60)
    # Full jitter over base * 2 ** failures, see `domain.schedule.back_off_s`.
    backoff_base_s: int = Field(default=10, ge=1)
    backoff_cap_s: int = Field(default=900, ge=1, le=43_200)
    # ECS sends SIGTERM, and SIGKILL this much later. 120 s is Fargate's maximum.
    stop_timeout_s: int = Field(default=120, ge=1, le=120)
    # On top of stop_timeout_s before a stopped attempt's successor may start.
    stop_margin_s: int = Field(default=30, ge=0)
    # A dispatcher waits this long for a slot before it defers what it holds; function timeout 75 s, queue visibility 120 s leave room.
    slot_wait_s: int = Field(default=50, ge=0, le=55)
    defer_min_s: int = Field(default=60, ge=1)
    defer_max_s: int = Field(default=300, ge=1)
    # Attempts that the platform ended (Spot, infrastructure, throttles) do not count as failures, but not without end.
    max_interruptions: int = Field(default=20, ge=1)
    # A job that Spot has interrupted this often goes on where it is not: it has waited enough.
    spot_interruptions: int = Field(default=2, ge=1)
    progress_period_s: float = Field(default=5, gt=0, le=60)
    # A message is replaced by a copy before SQS gives up on it: well below maxReceiveCount (1000), and a day and a half before the queue's retention (10 days)
    # ends. A running job's message is seen again only at the next hand-over, half a day later: so no healthy message comes nearer to its end than a day.
    renew_receives: int = Field(default=900, ge=1, le=990)
    renew_age_s: int = Field(default=17 * 43_200, ge=1)
    # A released job whose message has not come this long after its back-off has lost it (a purged queue): the sweeper sends a copy.
    missing_after_s: int = Field(default=6 * 3_600, ge=1)

    @model_validator(mode="after")
    def _consistent(self) -> "LeaseSettings":
        if self.beat_floor_s > self.beat_ceiling_s:
            raise ValueError(
                f"beat_floor_s ({self.beat_floor_s}) must not exceed beat_ceiling_s ({self.beat_ceiling_s})"
            )
        if self.backoff_base_s > self.backoff_cap_s:
            raise ValueError(
                f"backoff_base_s ({self.backoff_base_s}) must not exceed backoff_cap_s ({self.backoff_cap_s})"
            )
        if self.defer_min_s > self.defer_max_s:
            raise ValueError(f"defer_min_s ({self.defer_min_s}) must not exceed defer_max_s ({self.defer_max_s})")
        return self


class StageSettings(Model):
    """One queue, its limit, and the defaults of the requests that come through it."""

    name: StageName = "main"
    # How many jobs of this stage may run at once.
    slots: int = Field(default=10, ge=1, le=10_000)
    engine: Engine = "fargate"
    size: SizeName = "small"
    # Fargate Spot: about a third of the price, and the platform may end a task with two minutes' notice.
    spot: bool = False
    # At most 7 days: beats every 5 min then stay below Step Functions' 25,000 history events.
    timeout_s: int = Field(default=21_600, ge=1, le=604_800)
    stall_timeout_s: int = Field(default=900, ge=1, le=604_800)
    max_attempts: int = Field(default=3, ge=1, le=100)
    # What runs when a request names no job, as those do that another stage's success makes.
    job: str | None = None
    # Where a success leads: each of these stages gets what the job emitted for it, or one job with the output as its input.
    next: tuple[StageName, ...] = ()
    # One job for a whole fan-out: when all jobs that one job emitted have come through the stage before.
    join: bool = False


class Stage(StageSettings):
    """A stage as deployed: with its queues."""

    # Queues have fixed names, `<stack>-<stage>-jobs` and `<stack>-<stage>-dead-letters`: `events/` name them, and so do people.
    queue_url: str
    dead_letter_queue_url: str


class PathPolicy(Model):
    """Where a request may read and write. The data bucket is always allowed, except for its `longhaul/` prefix, which is ours."""

    data_bucket: str
    input_buckets: tuple[str, ...] = ()
    output_buckets: tuple[str, ...] = ()
    # Where a request may take a job's code from, each `s3://bucket/…/`. None: the catalogue alone.
    job_prefixes: tuple[str, ...] = ()
    # `file:` paths make sense only where the runner shares a disk with the producer.
    allow_file: bool = False


class TaskSize(Model):
    """What a Fargate task of one size gets. 1024 CPU units are one vCPU."""

    cpu: int
    memory_mib: int
    disk_gib: int


class TaskSettings(Model):
    """What tasks are: a job whose disk is too small says which size would do, and people ask what they cost."""

    architecture: Architecture = "arm64"
    public_ip: bool = True
    # Empty where nobody knows.
    sizes: dict[SizeName, TaskSize] = Field(default_factory=dict)

    @property
    def disk_gib(self) -> dict[SizeName, int]:
        """Each size's disk."""
        return {name: size.disk_gib for name, size in self.sizes.items()}


class EmrApplication(Model):
    """The application on which jobs of the engine `emr-serverless` run."""

    application_arn: str
    # Where Spark writes before anything is published, and where inputs go that it could not read as they are: `s3://bucket/prefix/`, or `file:` for the driver's
    # scratch folder, on a disk that executors share.
    work_area: str

    @property
    def application_id(self) -> str:
        return self.application_arn.rpartition("/")[2]


class RuntimeSettings(Model):
    leases_table: str
    stages: tuple[Stage, ...] = Field(min_length=1)
    paths: PathPolicy
    # Names in `jobs/catalogue/`: the dispatcher does not carry the jobs' code, yet refuses unknown ones at once.
    jobs: tuple[str, ...] = Field(min_length=1)
    lease: LeaseSettings = LeaseSettings()
    tasks: TaskSettings = TaskSettings()
    # The machine is named after the stack, so that its ARN can be told to functions that the machine itself names (no cycle in the template).
    state_machine_arn: str
    cluster_arn: str
    # Where the tasks' logs go; a task's stream is `job/job/<task id>` (prefix, container, task).
    job_log_group: str
    # None: the stack has no such engine.
    emr_serverless: EmrApplication | None = None
    # The stack's name: two stacks in one account must not write to each other's metrics.
    metrics_namespace: str = "Longhaul"
    # Where AWS is, when it is not where the SDK looks: `sam local invoke` against the embedded AWS sets it.
    endpoint_url: str | None = None

    @property
    def engines(self) -> tuple[Engine, ...]:
        """What the stack can run jobs on."""
        return ("fargate", "emr-serverless") if self.emr_serverless else ("fargate",)

    @property
    def near_retention_s(self) -> int:
        """Age in seconds from which a message is nearer to its end than it should ever be: its renewal was due, and so was the hand-over that brings it about."""
        return self.lease.renew_age_s + self.lease.hand_over_age_s

    def stage(self, name: str) -> Stage:
        """The stage of that name.

        Raises:
            LookupError: no such stage is deployed.
        """
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise LookupError(f"no stage {name!r}; deployed: {', '.join(stage.name for stage in self.stages)}")

    def stage_of_queue(self, queue_arn: str) -> Stage:
        """The stage whose jobs queue this is. The name decides: `events/` then serve any account and region.

        Raises:
            LookupError: the queue belongs to no stage.
        """
        name = queue_arn.rpartition(":")[2]
        for stage in self.stages:
            if stage.queue_url.rpartition("/")[2] == name:
                return stage
        raise LookupError(f"no stage reads from the queue {name!r}")


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
    return RuntimeSettings.model_validate_json(text)
