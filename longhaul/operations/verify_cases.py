"""What is tried: a table of small jobs, what disturbs each, and how each must end. Pure."""

import json
import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from longhaul.core.errors import InvalidRequestError
from longhaul.core.places import TablePath
from longhaul.core.policy import parse_request
from longhaul.core.settings import EngineName, RuntimeSettings, Stage
from longhaul.operations.errors import LonghaulError, NoSuchStageError

PROBE: Final = "probe"
"""The job of the catalogue that ends as its parameters say."""


class Disturbance(Enum):
    """What is done to the first attempt, once it runs."""

    CANCEL = auto()
    STOP_TASK = auto()
    STOP_EXECUTION = auto()


@dataclass(frozen=True)
class Case:
    """One job, or one message that is none, and how it must end (`verify.ending`)."""

    name: str
    ending: str
    plan: tuple[str, ...] = ("succeed",)
    copies: int = 1
    disturbance: Disturbance | None = None
    is_request: bool = True
    to_table: bool = False
    engine: EngineName = "fargate"


_SUCCESS: Final = "SUCCEEDED, 1 attempt, output"
_RETRIED: Final = "SUCCEEDED, 2 attempts, 1 interruption, output"

CASES: Final = (
    Case("success", _SUCCESS),
    Case("failure", "SUCCEEDED, 2 attempts, 1 failure, output", plan=("fail", "succeed")),
    Case("refusal", "DEAD, 1 attempt, 1 failure, dead letter permanent", plan=("refuse",)),
    Case("invalid", "DEAD, dead letter invalid_request", is_request=False),
    Case("duplicate", _SUCCESS, copies=2),
    Case("cancel", "CANCELLED, 1 attempt", plan=("wait",), disturbance=Disturbance.CANCEL),
    Case("stopped-task", _RETRIED, ("wait", "succeed"), disturbance=Disturbance.STOP_TASK),
    Case(
        "stopped-execution", _RETRIED, ("wait", "succeed"), disturbance=Disturbance.STOP_EXECUTION
    ),
)
TABLE: Final = Case("table", _SUCCESS, to_table=True)
ON_EMR: Final = Case("emr-serverless", _SUCCESS, engine="emr-serverless")


def cases_of(settings: RuntimeSettings) -> list[Case]:
    """All that the stack can run."""
    return [
        *CASES,
        *([TABLE] if settings.paths.table_databases else []),
        *([ON_EMR] if ON_EMR.engine in settings.engines else []),
    ]


def stage_for(settings: RuntimeSettings, name: str | None) -> Stage:
    """The stage of that name, or the first that takes probes.

    Raises:
        LonghaulError: there is none, or it takes none; the message has the way out.
    """
    for stage in settings.stages:
        if name in (None, stage.name) and _takes_probes(stage, settings):
            return stage
    raise (NoSuchStageError if name else LonghaulError)(
        f"no stage{f' {name}' if name else ''} takes probes: one that leads to no other, joins "
        "nothing, is not retired, and allows the job `probe`; name another with --stage, or add "
        'one to the settings, such as {"name": "probe", "slots": 2}'
    )


def _takes_probes(stage: Stage, settings: RuntimeSettings) -> bool:
    """Whether a probe would start there, and its success would start nothing else."""
    try:
        parse_request(body(CASES[0], PROBE, settings), settings, stage)
    except InvalidRequestError:
        return False
    return not (stage.next or stage.join or stage.retired)


def output_of(case: Case, job_id: str, settings: RuntimeSettings) -> str:
    """Where the output goes: the data bucket or the stack's own database, always allowed."""
    if case.to_table:
        name = re.sub(r"[^a-z0-9_]", "_", job_id.lower())
        return str(TablePath(settings.paths.table_databases[0], name))
    return f"s3://{settings.paths.data_bucket}/verify/{job_id}/"


def body(case: Case, job_id: str, settings: RuntimeSettings) -> str:
    """The message's body. An invalid one is told apart by its id alone."""
    if not case.is_request:
        return json.dumps({"job": PROBE, "job_id": job_id, "is_a_request": False})
    request = {
        "job": PROBE,
        "job_id": job_id,
        "output": output_of(case, job_id, settings),
        "params": {"plan": case.plan},
        "engine": case.engine,
        # Whatever the stage's own are: one of the disturbances stops a task, and one failure must
        # not be the last.
        "size": "small",
        "max_attempts": 2,
    }
    return json.dumps(request)
