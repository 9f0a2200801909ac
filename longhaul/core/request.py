"""The job request: the JSON body of a message, schema version 1. Pure.

Validation reports all problems at once, in sentences for people, and never repeats the body:
messages may hold secrets, and the sentences go to logs and dead letters.

A label and tags name work and do not describe it: no rule reads them, and a request with other ones
asks for the same work (`docs/internals/decisions/0022-labels-name-work.md`).
"""

import hashlib
import json
import re
from collections.abc import Mapping
from glob import escape
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import (
    AfterValidator,
    AliasPath,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from longhaul.core.descent import MAX_GROUP, Lineage
from longhaul.core.durations import format_duration, parse_duration_s
from longhaul.core.errors import InvalidRequestError
from longhaul.core.places import MAX_BESIDE, DataPath, is_table
from longhaul.core.settings import EngineName, Mode, Model, PathPolicy, SizeName

MAX_LABEL: Final = 100
MAX_TAGS: Final = 10
MAX_TAG: Final = 64
# With the label in each write of progress: a write is billed by whole kilobytes of its row.
MAX_TAG_BYTES: Final = 512
RESERVED: Final = "longhaul"
LABEL_RULE: Final = f"1 to {MAX_LABEL} characters that can be printed, no blank at either end"
_TAG_NAME: Final = re.compile(rf"[A-Za-z0-9._/:-]{{1,{MAX_TAG}}}")


def _text(value: str) -> str:
    # Not printable are also marks of direction, which would change how a line around them reads.
    if not 0 < len(value) <= MAX_LABEL or not value.isprintable() or value != value.strip():
        raise ValueError(f"has {LABEL_RULE}")
    return value


def _at_most(most: int) -> BeforeValidator:
    def check(value: object) -> object:
        # Before each is looked at: a message has room for 100,000, all of them wrong.
        if isinstance(value, dict) and len(value) > most:
            raise ValueError(f"at most {most:,}, not {len(value):,}")
        return value

    return BeforeValidator(check)


def _tag_name(value: str) -> str:
    if not _TAG_NAME.fullmatch(value):
        raise ValueError(f"a tag's name has 1 to {MAX_TAG} of A-Z a-z 0-9 . _ / : -")
    if value.lower().startswith(RESERVED):
        raise ValueError(f"names that begin with {RESERVED} are kept for Longhaul's own tags")
    return value


def bytes_of(tags: Mapping[str, str]) -> int:
    """Of the names and the values."""
    return sum(len(f"{name}{value}".encode()) for name, value in tags.items())


def _small(value: dict[str, str]) -> dict[str, str]:
    if (size := bytes_of(value)) > MAX_TAG_BYTES:
        raise ValueError(f"at most {MAX_TAG_BYTES} bytes of names and values, not {size:,}")
    return value


Label = Annotated[str, AfterValidator(_text)]
Tags = Annotated[
    dict[Annotated[str, AfterValidator(_tag_name)], Annotated[str, AfterValidator(_text)]],
    _at_most(MAX_TAGS),
    AfterValidator(_small),
]


def label_from(text: str) -> str | None:
    """A label that says what a text of any kind says; None where nothing of it can be printed."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return shown.strip()[-MAX_LABEL:].strip() or None


class Named(Protocol):
    """A row, or a request."""

    @property
    def label(self) -> str | None: ...
    @property
    def tags(self) -> Mapping[str, str]: ...


MAX_TIMEOUT_S = 604_800
_MAX_INPUTS = MAX_GROUP  # a joined job has one for each of its group
_MAX_PATH = 2_048
_MAX_NESTED = 100_000
"""Lists and objects of a body at most: each takes microseconds of every look at a message."""
MAX_PROBLEMS = 10
_MAX_NAME = 24
# With a leading `-` an id would be an option of the command that it is given to.
_JOB_ID = re.compile(r"(?![/-])[A-Za-z0-9._/:-]{1,128}")
JOB_ID_RULE = "1 to 128 of A-Z a-z 0-9 . _ / : -, no leading '/' or '-', no '..'"
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
    seconds = parse_duration_s(value)
    if seconds > MAX_TIMEOUT_S:
        raise ValueError(f"at most {format_duration(MAX_TIMEOUT_S)}")
    return seconds


JobId = Annotated[str, AfterValidator(_job_id)]
Duration = Annotated[int, BeforeValidator(_duration)]
JobReference = Annotated[str, Field(max_length=_MAX_PATH), AfterValidator(_job)]
Name = Annotated[str, Field(pattern=_NAME)]
PathText = Annotated[str, Field(min_length=1, max_length=_MAX_PATH)]
DATA: Final = "data:"
"""How a path in the stack's data bucket begins, whatever the bucket is called."""
TABLE: Final = "table:"
"""How a table of the stack's database begins, whatever the database is called."""
OBJECT: Final = "{object}"
"""In the inputs and the outputs of a request with an `object`: the object's path."""
_OBJECT_ID: Final = "{object.id}"
_PLACES: Final = re.compile(r"\{object(?:\.id)?\}")
_MAX_FILLED: Final = 1_048_576
"""Characters: as many as the largest message has, so a filled request costs no more than that."""
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9_]+")


class CreatedObject(Model):
    """The object for which a trigger sends a request; `key` is any that S3 allows.

    It comes as the parts `bucket` and `object` of S3's event.
    """

    bucket: Annotated[
        str, Field(min_length=1, max_length=63, validation_alias=AliasPath("bucket", "name"))
    ]
    key: Annotated[
        str, Field(min_length=1, max_length=1024, validation_alias=AliasPath("object", "key"))
    ]
    etag: Annotated[
        str, Field(min_length=1, max_length=128, validation_alias=AliasPath("object", "etag"))
    ]

    @property
    def id(self) -> str:
        """The same for each delivery of one event, and another for other content."""
        whole = f"{self.bucket}/{self.key} {self.etag}".encode("utf-8", "surrogatepass")
        name = _NOT_IN_IDS.sub("-", self.key.rpartition("/")[2])[-60:]
        return f"{name}-{hashlib.sha256(whole).hexdigest()[:24]}".lstrip("-")

    def fill(self, texts: Mapping[str, object]) -> dict[str, object]:
        """Texts of the request with the object in them.

        Raises:
            ValueError: they name the object so often that no message could hold the result.
        """
        # Escaped, since a path may be a glob and this one is not.
        places = {OBJECT: f"s3://{self.bucket}/{escape(self.key)}", _OBJECT_ID: self.id}
        longest = max(map(len, places.values()))
        named = sum(len(_PLACES.findall(text)) for text in texts.values() if isinstance(text, str))
        # Before the first is filled: from 1 MiB of names it would make gigabytes of paths.
        if named * longest > _MAX_FILLED:
            raise ValueError(
                f"the object is named {named:,} times, which would make the request longer than a"
                " message may be: name it once in each path"
            )
        return {
            name: _PLACES.sub(lambda match: places[match[0]], text)
            if isinstance(text, str)
            else text
            for name, text in texts.items()
        }


class JobRequest(Model):
    """What a producer asks for.

    Fields left out (None) take the stage's defaults when the job is first claimed.
    """

    model_config = ConfigDict(strict=True)

    version: Literal[1] = 1
    job: JobReference | None = None
    job_id: JobId | None = None
    inputs: Annotated[dict[Name, PathText], _at_most(_MAX_INPUTS)] = Field(default_factory=dict)
    output: PathText
    # Further outputs by name, for what a job writes beside the main one (`docs/jobs.md`).
    outputs: Annotated[dict[Name, PathText], _at_most(MAX_BESIDE)] = Field(default_factory=dict)
    # Of each output; `overwrite_partitions` of those to tables, and prefixes are overwritten.
    mode: Mode = "overwrite"
    params: dict[str, JsonValue] = Field(default_factory=dict)
    engine: EngineName | None = None
    size: SizeName | None = None
    timeout: Duration | None = None
    stall_timeout: Duration | None = None
    max_attempts: Annotated[int, Field(ge=1, le=100)] | None = None
    # Leave what the job has stored in a run before (`docs/checkpoints.md`).
    afresh: bool = False
    # What people call the job. A follow-on that has none gets its parent's.
    label: Label | None = None
    tags: Tags = Field(default_factory=dict)
    # Written by Longhaul on what a job's success sends; never by producers.
    lineage: Lineage | None = None
    # Written by triggers. It is in the inputs, the output and the job_id by then.
    object: Annotated[CreatedObject | None, Field(exclude=True)] = None

    @model_validator(mode="before")
    @classmethod
    def _of_an_object(cls, document: Any) -> Any:  # noqa: ANN401 - whatever the body holds
        if not isinstance(document, dict) or "object" not in document:
            return document
        try:
            made = CreatedObject.model_validate(document["object"])
        except ValidationError:
            return document  # the field's own validation says what is wrong
        label = label_from(made.key.rpartition("/")[2])
        filled = {"job_id": made.id, **({"label": label} if label else {}), **document}
        for name in ("inputs", "outputs"):
            if isinstance(paths := document.get(name), dict):
                filled[name] = made.fill(paths)
        if "output" in document:
            filled |= made.fill({"output": document["output"]})
        return filled

    @property
    def places(self) -> dict[str, str]:
        """All outputs by the names of their fields: `output`, and `outputs.NAME`."""
        return {"output": self.output} | {
            f"outputs.{name}": path for name, path in self.outputs.items()
        }

    @property
    def where_outputs_go(self) -> dict[str, str]:
        """All outputs by their names, that of the main one is empty: as rows and manifests say."""
        named = {"": self.output, **self.outputs}
        return {
            name: path if is_table(path) else str(DataPath.prefix_of(path))
            for name, path in named.items()
        }

    @field_validator("params")
    @classmethod
    def _finite(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        # NaN and Infinity are no JSON: refuse them here rather than in the job.
        json.dumps(value, allow_nan=False)
        return value

    def fingerprint(self) -> str:
        """Hex digest that is equal for requests for the same work.

        Over the request as sent, without the stage's defaults: a deploy that changes a default
        between two deliveries of one message does not make it another request. Without what names
        the work and does not describe it, and without `afresh`, which is about its way.
        """
        named = {"job_id", "label", "tags", "lineage"}
        asked = self.model_dump(exclude={*named, "afresh"}, exclude_defaults=True)
        return hashlib.sha256(
            json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()
        ).hexdigest()[:32]


def read_request(body: str, paths: PathPolicy | None = None) -> JobRequest:
    """The request in a body, whatever the settings allow.

    Args:
        body: JSON.
        paths: has the names for `data:` and `table:`. Without it the paths stay as they are sent,
            which is for people: no job can read them.

    Raises:
        InvalidRequestError: it is no request; `problems` says why, without quoting the body.
    """
    # Before it is parsed, and brackets within texts count too: no query has that many.
    if body.count("[") + body.count("{") > _MAX_NESTED:
        problem = (
            f"the body has more than {_MAX_NESTED:,} lists and objects: put what is large into an"
            " object on S3, and name that as an input or in params"
        )
        raise InvalidRequestError([problem])
    try:
        document = json.loads(body, parse_constant=_refuse_constant)
        if not isinstance(document, dict):
            raise InvalidRequestError(
                [f"the body must be a JSON object, not {_json_type(document)}"]
            )
        if paths is not None:
            document = _with_names(document, paths)
        return JobRequest.model_validate(document)
    except ValidationError as error:
        raise InvalidRequestError(
            _sentences(error.errors(include_url=False, include_input=False))
        ) from None
    except RecursionError:
        raise InvalidRequestError(["the body is nested too deeply"]) from None
    except ValueError as error:
        where = (
            f" at line {error.lineno}, column {error.colno}"
            if isinstance(error, json.JSONDecodeError)
            else ""
        )
        raise InvalidRequestError([f"the body is not valid JSON{where}"]) from None


def with_names(path: str, policy: PathPolicy) -> str:
    """The path, with the names of the stack's data bucket and database for `data:` and `table:`.

    Its database is its own, and where it has none the first of those that the settings allow.
    """
    if path.startswith(DATA):
        return f"s3://{policy.data_bucket}/{path.removeprefix(DATA)}"
    if path.startswith(TABLE) and not is_table(path) and policy.table_databases:
        return f"table://{policy.table_databases[0]}/{path.removeprefix(TABLE)}"
    return path


def _with_names(document: Mapping[str, Any], policy: PathPolicy) -> dict[str, Any]:
    """A request with those names: the same work as one that was sent with them."""

    def named(text: object) -> object:
        return with_names(text, policy) if isinstance(text, str) else text

    fields = {name: named(document[name]) for name in ("job", "output") if name in document}
    for field in ("inputs", "outputs"):
        if isinstance(paths := document.get(field), dict):
            fields[field] = {name: named(text) for name, text in paths.items()}
    return {**document, **fields}


def parse_job_id(value: str) -> str:
    """A job id that came as a message attribute.

    Raises:
        InvalidRequestError: it is no job id.
    """
    try:
        return _job_id(value)
    except ValueError as error:
        raise InvalidRequestError([f"message attribute job_id: {error}"]) from None


def _sentences(errors: list[ErrorDetails]) -> list[str]:
    sentences = [
        ": ".join(filter(None, (_location(error["loc"]), _reason(error))))
        for error in errors[:MAX_PROBLEMS]
    ]
    if len(errors) > MAX_PROBLEMS:
        sentences.append(f"and {len(errors) - MAX_PROBLEMS} more")
    return sentences


def _reason(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        known = ", ".join(
            name for name in JobRequest.model_fields if name not in ("lineage", "object")
        )
        return f"unknown field; known: {known}"
    if error["type"] == "missing":
        return "is missing"
    return error["msg"].removeprefix("Value error, ")


def name_of(key: str) -> str:
    """A name that came with a message, such as a key of its JSON: whole if it is short.

    Escaped, so that it cannot forge a line of a log.
    """
    name = key[:_MAX_NAME].encode("unicode_escape").decode()
    return name if len(key) <= _MAX_NAME else f"{name}…"


def _location(parts: tuple[int | str, ...]) -> str:
    """Field names come from the body: hostile ones are cut and escaped.

    Pydantic's `[key]` says that the name itself is wrong, as the sentence does.
    """
    return ".".join(name_of(str(part)) for part in parts if part != "[key]")


def _refuse_constant(name: str) -> Any:  # noqa: ANN401 - json's own signature
    raise ValueError(f"{name} is not valid JSON")


def _json_type(value: object) -> str:
    return {type(None): "null", bool: "a boolean", str: "a text", list: "an array"}.get(
        type(value), "a number"
    )
