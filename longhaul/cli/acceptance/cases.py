"""What is tried: a table of small jobs, what disturbs each, and how each must end. Pure."""

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.lease import State
from longhaul.domain.policy import parse_request
from longhaul.domain.tables import TablePath
from longhaul.settings import EngineName, RuntimeSettings, Stage

PROBE: Final = "probe"
"""The job of the catalogue that ends as its parameters say."""

MAX_ATTEMPTS: Final = 2


class Disturbance(StrEnum):
    CANCEL = "cancelled"
    STOP_TASK = "its task stopped with StopTask"
    STOP_EXECUTION = "its execution stopped by hand"


@dataclass(frozen=True)
class Ending:
    """How a job ends: what its row and its output say. `rows` is None without an output."""

    state: State
    attempts: int = 1
    failures: int = 0
    interruptions: int = 0
    rows: int | None = None

    def __str__(self) -> str:
        counts = (
            (self.attempts, "attempt"),
            (self.failures, "failure"),
            (self.interruptions, "interruption"),
        )
        parts = [f"{n} {what}{'' if n == 1 else 's'}" for n, what in counts if n]
        rows = [] if self.rows is None else [f"{self.rows} row{'' if self.rows == 1 else 's'}"]
        return ", ".join([self.state.value, *parts, *rows])


@dataclass(frozen=True)
class Case:
    """One job, or one message that is none.

    `letter` is the class of the dead letter, None without one. `members` are the jobs that it fans
    out into.
    """

    name: str
    what: str
    ending: Ending
    plan: tuple[str, ...] = ("succeed",)
    copies: int = 1
    disturbance: Disturbance | None = None
    letter: str | None = None
    members: int = 0
    to_table: bool = False
    engine: EngineName = "fargate"


_SUCCESS = Ending(State.SUCCEEDED, rows=1)
_INTERRUPTED = Ending(State.SUCCEEDED, attempts=2, interruptions=1, rows=1)

CASES: Final = (
    Case("success", "a job that succeeds", _SUCCESS),
    Case(
        "failure",
        "a job whose first attempt fails, which counts",
        Ending(State.SUCCEEDED, attempts=2, failures=1, rows=1),
        plan=("fail", "succeed"),
    ),
    Case(
        "refusal",
        "a job that says that it cannot succeed",
        Ending(State.DEAD, failures=1),
        plan=("refuse",),
        letter="permanent",
    ),
    Case(
        "invalid",
        "a body that is no request",
        Ending(State.DEAD, attempts=0),
        letter="invalid_request",
    ),
    Case("duplicate", "a job that is sent twice", _SUCCESS, copies=2),
    Case(
        "cancel",
        "a job that is cancelled while it runs",
        Ending(State.CANCELLED),
        plan=("wait",),
        disturbance=Disturbance.CANCEL,
    ),
    Case(
        "stopped-task",
        "a job whose task is stopped with StopTask",
        _INTERRUPTED,
        plan=("wait", "succeed"),
        disturbance=Disturbance.STOP_TASK,
    ),
    Case(
        "stopped-execution",
        "a job whose execution is stopped by hand",
        _INTERRUPTED,
        plan=("wait", "succeed"),
        disturbance=Disturbance.STOP_EXECUTION,
    ),
)

# The join gets a row for itself, and one for each input.
FAN_OUT: Final = Case(
    "fan-out", "a job that emits two, which a third joins", Ending(State.SUCCEEDED), members=2
)

TABLE: Final = Case("table", "a job whose output is a table", _SUCCESS, to_table=True)

ON_EMR: Final = Case("emr-serverless", "a job on EMR Serverless", _SUCCESS, engine="emr-serverless")

IN_SOME: Final = (FAN_OUT, TABLE, ON_EMR)
"""Cases that not every stack can run."""

NO_DATABASE: Final = "the stack has no database for tables: deploy this version of it"


def some_of(settings: RuntimeSettings) -> list[Case]:
    """`IN_SOME` without what needs an engine that the stack does not have, and need not."""
    return [case for case in IN_SOME if case.engine in settings.engines]


@dataclass(frozen=True)
class Pipeline:
    """Three stages for the fan-out: the last joins, and its default job is the probe."""

    first: Stage
    members: Stage
    join: Stage


NO_PIPELINE: Final = (
    "no stage leads through another to one that joins with the job `probe`: add to the settings "
    'the stages probes (next = ["members"]), members (job = "probe", next = ["joins"]) and joins '
    '(job = "probe", join = true)'
)


def pipeline(settings: RuntimeSettings) -> Pipeline | None:
    """The stages through which a fan-out of probes can go and start nothing else."""
    for first in settings.stages:
        for name in first.next:
            members = settings.stage(name)
            if members.join or len(members.next) != 1:
                continue
            join = settings.stage(members.next[0])
            is_ours = join.join and join.job == PROBE and not join.next
            if is_ours and not any(_refusal(each, settings) for each in (first, members, join)):
                return Pipeline(first, members, join)
    return None


def stage_for(settings: RuntimeSettings, name: str | None) -> Stage:
    """The stage of that name, or the first in which a probe's success starts nothing else.

    Raises:
        CommandError: there is none, or the probe cannot run there; the message has the way out.
    """
    if PROBE not in settings.jobs:
        raise CommandError(
            f"the stack's catalogue has no job {PROBE!r}: deploy it with this version first"
        )
    if name is not None:
        try:
            stage = settings.stage(name)
        except LookupError as error:
            raise CommandError(str(error.args[0]), ExitStatus.USAGE) from error
        if problem := _why_not(stage, settings):
            raise CommandError(f"stage {name} {problem}; {_ANOTHER}", ExitStatus.USAGE)
        return stage
    problems = {each.name: _why_not(each, settings) for each in settings.stages}
    for each in settings.stages:
        if not problems[each.name]:
            return each
    reasons = "; ".join(f"stage {stage} {problem}" for stage, problem in problems.items())
    raise CommandError(f"no stage can take a probe: {reasons}; {_ANOTHER}")


_ANOTHER: Final = (
    'name another with --stage, or add one to the settings that leads nowhere, such as {"name": '
    '"probe", "slots": 2}'
)


def _why_not(stage: Stage, settings: RuntimeSettings) -> str:
    if stage.next:
        return f"leads to {', '.join(stage.next)}, where each probe's success would start a job"
    if stage.join:
        return "joins a fan-out"
    return _refusal(stage, settings)


def _refusal(stage: Stage, settings: RuntimeSettings) -> str:
    """Why the dispatcher would not start a probe there; empty if it would."""
    if stage.retired:
        return "is retired: nothing starts there"
    try:
        output = output_of(CASES[0], "probe", settings)
        parse_request(body(CASES[0], "probe", output), settings, stage)
    except InvalidRequestError as error:
        return f"does not allow the probe: {error}"
    return ""


def output_of(case: Case, job_id: str, settings: RuntimeSettings) -> str:
    """Where a trial's output goes: the data bucket or the stack's own database, always allowed."""
    if case.to_table:
        return str(TablePath(settings.paths.table_databases[0], table_name(job_id)))
    return f"s3://{settings.paths.data_bucket}/verify/{job_id}/"


def table_name(job_id: str) -> str:
    return re.sub(r"[^a-z0-9_]", "_", job_id.lower())


def body(case: Case, job_id: str, output: str, pipeline: Pipeline | None = None) -> str:
    """The message's body. An invalid one is told apart by its id alone."""
    if not case.ending.attempts:
        return json.dumps({"job": PROBE, "job_id": job_id, "is_a_request": False})
    params: dict[str, Any] = {"plan": case.plan}
    if case.members and pipeline is not None:
        params = {"members": case.members, "into": pipeline.members.name}
    request = {
        "job": PROBE,
        "job_id": job_id,
        "output": output,
        "params": params,
        # Whatever the stage's own are: one of the disturbances stops a task, and one failure must
        # not be the last.
        "engine": case.engine,
        "size": "small",
        "max_attempts": MAX_ATTEMPTS,
    }
    return json.dumps(request)


@dataclass(frozen=True)
class Trial:
    """A case as it was sent."""

    case: Case
    stage: Stage
    job_id: str
    body: str
    join: Stage | None = None

    @property
    def key(self) -> str:
        return f"{self.stage.name}#{self.job_id}"
