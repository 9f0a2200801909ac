"""The job request: the JSON body of a message, schema version 1.

Validation says everything that is wrong at once, in sentences for people, and never repeats the body: messages may hold secrets, and the sentences land
in logs and dead letters.
"""

import hashlib
import json
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError, field_validator
from pydantic_core import ErrorDetails

from longhaul.domain.durations import parse_duration_s
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.lineage import MAX_GROUP, Lineage
from longhaul.domain.paths import parse_input, parse_job, parse_output
from longhaul.settings import Engine, Model, RuntimeSettings, SizeName, Stage

MAX_TIMEOUT_S = 604_800
_MAX_INPUTS = MAX_GROUP  # a joined job has one for each of its group
_MAX_PATH = 2_048
_MAX_PROBLEMS = 10
_JOB_ID = re.compile(r"(?!/)[A-Za-z0-9._/:-]{1,128}")
JOB_ID_RULE = "1 to 128 of A-Z a-z 0-9 . _ / : -, no leading '/', no '..'"
_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"


def _job_id(value: str) -> str:
    if not _JOB_ID.fullmatch(value) or ".." in value:
        raise ValueError(f"a job_id has {JOB_ID_RULE}")
    return value


def _job(value: str) -> str:
    if not value.startswith("s3://") and not re.fullmatch(_NAME, value):
        raise ValueError("a job is a name of the catalogue (A-Z a-z 0-9 _), or s3://…/name.py")
    return value


def _duration(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("a duration is a text such as 90s, 15m or 6h")  # noqa: TRY004 - pydantic wants ValueError
    return parse_duration_s(value)


JobId = Annotated[str, AfterValidator(_job_id)]
Duration = Annotated[int, BeforeValidator(_duration), Field(ge=1, le=MAX_TIMEOUT_S)]
JobReference = Annotated[str, Field(max_length=_MAX_PATH), AfterValidator(_job)]
Name = Annotated[str, Field(pattern=_NAME)]
Mode = Literal["overwrite", "append", "error"]
"""What to do with an output that is there already: replace it, add to it, or refuse."""


class JobRequest(Model):
    """What a producer asks for. Fields left out (None) take the stage's defaults when the job is first claimed."""

    model_config = ConfigDict(strict=True)

    version: Literal[1] = 1
    job: JobReference | None = None
    job_id: JobId | None = None
    inputs: dict[Name, Annotated[str, Field(min_length=1, max_length=_MAX_PATH)]] = Field(
        default_factory=dict, max_length=_MAX_INPUTS
    )
    output: Annotated[str, Field(min_length=1, max_length=_MAX_PATH)]
    mode: Mode = "overwrite"
    params: dict[str, JsonValue] = Field(default_factory=dict)
    engine: Engine | None = None
    size: SizeName | None = None
    timeout: Duration | None = None
    stall_timeout: Duration | None = None
    max_attempts: Annotated[int, Field(ge=1, le=100)] | None = None
    # Written by Longhaul on what a job's success sends; never by producers.
    lineage: Lineage | None = None

    @field_validator("params")
    @classmethod
    def _finite(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        json.dumps(value, allow_nan=False)  # NaN and Infinity are no JSON: refused here rather than in the job
        return value

    def fingerprint(self) -> str:
        """Hex digest that is equal for requests that ask for the same work.

        It is taken over the request as sent, before stage defaults, so that a deploy that changes a default between two deliveries of one message does
        not make it another request; `job_id` and `lineage` are left out, because they name the work and do not describe it.
        """
        asked = self.model_dump(mode="json", exclude={"job_id", "lineage"}, exclude_defaults=True)
        return hashlib.sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]


def parse_request(body: str, settings: RuntimeSettings, stage: Stage) -> JobRequest:
    """The request in a message body that came through `stage`.

    Raises:
        InvalidRequestError: the body can never run; `problems` says why, without quoting it.
    """
    try:
        document = json.loads(body, parse_constant=_refuse_constant)
        if not isinstance(document, dict):
            raise InvalidRequestError([f"the body must be a JSON object, not {_json_type(document)}"])
        request = JobRequest.model_validate(document)
    except ValidationError as error:
        raise InvalidRequestError(_sentences(error.errors(include_url=False, include_input=False))) from None
    except RecursionError:
        raise InvalidRequestError(["the body is nested too deeply"]) from None
    except ValueError as error:
        where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidRequestError([f"the body is not valid JSON{where}"]) from None
    problems = _policy_problems(request, settings, stage)
    if problems:
        raise InvalidRequestError(problems)
    return request


def parse_job_id(value: str) -> str:
    """A job id that came as a message attribute.

    Raises:
        InvalidRequestError: it is no job id.
    """
    try:
        return _job_id(value)
    except ValueError as error:
        raise InvalidRequestError([f"message attribute job_id: {error}"]) from None


def _policy_problems(request: JobRequest, settings: RuntimeSettings, stage: Stage) -> list[str]:
    problems = []
    if request.job is None:
        if stage.job is None:
            problems.append(
                f"job: is missing, and stage {stage.name} has no default; known: {', '.join(settings.jobs)}"
            )
    elif request.job.startswith("s3://"):
        try:
            parse_job(request.job, settings.paths)
        except ValueError as error:
            problems.append(f"job: {error}")
    elif request.job not in settings.jobs:
        problems.append(f"job: unknown job {request.job!r}; known: {', '.join(settings.jobs)}")
    engine = request.engine or stage.engine
    if engine not in settings.engines:
        problems.append(f"engine: this stack has no {engine}; it has: {', '.join(settings.engines)}")
    for name, path in request.inputs.items():
        try:
            parse_input(path, settings.paths)
        except ValueError as error:
            problems.append(f"inputs.{name}: {error}")
    try:
        parse_output(request.output, settings.paths)
    except ValueError as error:
        problems.append(f"output: {error}")
    return problems[:_MAX_PROBLEMS]


def _sentences(errors: list[ErrorDetails]) -> list[str]:
    sentences = [f"{_location(error['loc'])}: {_reason(error)}" for error in errors[:_MAX_PROBLEMS]]
    if len(errors) > _MAX_PROBLEMS:
        sentences.append(f"and {len(errors) - _MAX_PROBLEMS} more")
    return sentences


def _reason(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        return f"unknown field; known: {', '.join(name for name in JobRequest.model_fields if name != 'lineage')}"
    if error["type"] == "missing":
        return "is missing"
    return error["msg"].removeprefix("Value error, ")


def _location(parts: tuple[int | str, ...]) -> str:
    """Field names come from the body: hostile ones are cut and escaped."""
    return ".".join(str(part)[:64].encode("unicode_escape").decode() for part in parts)


def _refuse_constant(name: str) -> Any:  # noqa: ANN401 - json's own signature
    raise ValueError(f"{name} is not valid JSON")


def _json_type(value: object) -> str:
    return {type(None): "null", bool: "a boolean", str: "a text", list: "an array"}.get(type(value), "a number")
