"""A world as data: submissions, how each attempt ends, acts of operators, and faults.

The same plan always makes the same world. A generated plan leaves the faults to its `mix`, and the
world records those that fired. A plan to shrink or replay names each fault by its place (`faults`),
so that leaving one out moves none of the others.
"""

from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from pydantic import ConfigDict, TypeAdapter

from simulation.aws.ecs.client import Launches

_STRICT = ConfigDict(extra="forbid")
"""Every field of a plan on a command line must be known."""

TINY = "tiny"
EMR = "emr-serverless"


@dataclass(frozen=True)
class Ending:
    """How one attempt ends.

    Attributes:
        kind: One of `endings.KINDS`.
        after_s: Seconds of work before it happens.
    """

    __pydantic_config__ = _STRICT

    kind: str = "done"
    after_s: float = 0.0


@dataclass(frozen=True)
class Job:
    """A job of the plan.

    Attributes:
        named: Whether its request has a job_id.
        endings: Of its attempts, in order, as far as they carry out work 0. Later attempts succeed.
        poison: Later attempts end like the last of `endings` instead.
        output: A prefix shared with other jobs; its own one when empty.
        table: The name of the table that it writes to, and not to a prefix.
        beside: Whether it writes to a prefix of its own, too.
        mode: `overwrite` or `append`.
        compacts: It reads what its output has, and replaces that; its mode is `overwrite`.
        output_bytes: How long the path of its output is, at least.
        fan_out: How many jobs it emits. None: it emits nothing and leaves one follow-on to its
            stage. It has no effect outside pipelines (see `stages`).
        size: What its request asks for; the stage's when empty.
        engine: What its request asks for; the stage's when empty.
        parts: In how many parts it writes its output, each of which is stored; 0: in none.
        late_s: For how many seconds its input comes, once it is listed.
        saves: What a job in parts stores besides: `checkpoint`, `folder`, or nothing; or
            `datasets`, which share its parts.
    """

    __pydantic_config__ = _STRICT

    name: str
    work_s: float = 30.0
    named: bool = True
    endings: tuple[Ending, ...] = ()
    poison: bool = False
    output: str = ""
    mode: str = "overwrite"
    timeout_s: int | None = None
    stall_timeout_s: int | None = None
    max_attempts: int | None = None
    files: int = 2
    compacts: bool = False
    output_bytes: int = 0
    fan_out: int | None = None
    size: str = ""
    engine: str = ""
    table: str = ""
    beside: bool = False
    parts: int = 0
    saves: str = ""
    late_s: float = 0.0

    @property
    def has_no_spark(self) -> bool:
        """Whether it is plain Python, where that runs: one job in four, by its name."""
        return crc32(self.name.encode()) % 4 == 0

    def ending(self, attempt: int, work: int) -> Ending:
        if work or not self.endings:
            return Ending()
        if attempt <= len(self.endings):
            return self.endings[attempt - 1]
        return self.endings[-1] if self.poison else Ending()


@dataclass(frozen=True)
class Act:
    """Something that people or SQS do at a time; `kind` is one of `acts.KINDS`.

    `work` distinguishes the requests under one key; of `set_slots` it is their number. `service` is
    what an outage hits, or the stage that is retired.
    """

    __pydantic_config__ = _STRICT

    at_s: float
    kind: str
    job: str = ""
    work: int = 0
    # How long an outage, a pause, other settings or a retirement last.
    for_s: float = 0.0
    service: str = ""


@dataclass(frozen=True)
class Fault:
    """The fault of the `n`th decision at a site, such as a host's calls or an event's delivery."""

    __pydantic_config__ = _STRICT

    site: str
    n: int
    kind: str


@dataclass(frozen=True)
class Mix:
    """The probabilities of faults, and this world's choice where AWS leaves a behaviour open."""

    __pydantic_config__ = _STRICT

    calls: float = 0.0
    kinds: tuple[str, ...] = ()  # the only faults of calls; empty for all
    swarm: bool = False  # about half of all kinds of faults are off; see `swarm`
    invokes: float = 0.0
    events: float = 0.0
    launches: float = 0.0
    completes: float = 0.0  # uploads that S3 completes slowly
    deliveries: float = 0.0  # batches that the mapping delivers late
    counts: float = 0.0  # receive counts that are not exact
    repeats_answers: bool = True  # of completions that are over
    writers: float = 0.0  # changes that others make to a table between two of our calls
    skew_s: float = 0.0
    stale_handles: str = "fail"
    index_lag_s: float = 0.0
    reorder: bool = False
    timeout_stops_task: bool = True
    short_pages: bool = False  # lists come in many small pages


@dataclass(frozen=True)
class Plan:
    __pydantic_config__ = _STRICT

    seed: int = 0
    jobs: tuple[Job, ...] = ()
    acts: tuple[Act, ...] = ()
    mix: Mix = field(default_factory=Mix)
    faults: tuple[Fault, ...] | None = None  # None: drawn by the mix
    largest_group: int = 0  # jobs that one may emit; 0 for the product's limit
    slots: int = 10
    clean_slots: int = 0  # of the stages behind `main`; 0 for a world without a pipeline
    shape: str = ""  # of the pipeline: see `stages.SHAPES`
    spot: bool = False
    max_attempts: int = 3
    renew_receives: int = 900
    notify: str = ""  # what is told of ends: sns, sqs, events; empty for nothing
    trees: bool = False  # the ends of trees are told, too
    kept_s: int = 0  # how long what a dead job has stored stays; 0 for the product's days
    secret: bool = False  # the stages have one
    retention_s: int = 0  # of the queues; 0 for the days that the template gives them
    launches_per_s: float = Launches.per_s  # of RunTask, after so many at once
    launches_at_once: int = Launches.at_once

    def plus(self, *acts: Act) -> "Plan":
        """The plan with more acts, all in the order of their times."""
        return replace(self, acts=tuple(sorted((*self.acts, *acts), key=lambda act: act.at_s)))

    @property
    def has_tiny(self) -> bool:
        """Whether the stack has the function that runs jobs of the size `tiny`."""
        return any(job.size == TINY for job in self.jobs)

    @property
    def has_emr(self) -> bool:
        """Whether the stack has EMR Serverless."""
        return any(job.engine == EMR for job in self.jobs)

    @property
    def has_tables(self) -> bool:
        return any(job.table for job in self.jobs)

    def to_json(self) -> str:
        """The plan without defaults, so that it fits on a command line."""
        return TypeAdapter(Plan).dump_json(self, exclude_defaults=True).decode()

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """Read a plan that `to_json` wrote.

        Raises:
            pydantic.ValidationError: the text is no plan.
        """
        return TypeAdapter(cls).validate_json(text)


def world_of(job: Job, *acts: Act, **changes: Any) -> Plan:
    """A world of one job that is sent after a second, and of no faults but those in `changes`."""
    plan = Plan(jobs=(job,), acts=(Act(1.0, "submit", job.name),), faults=())
    return replace(plan.plus(*acts), **changes)
