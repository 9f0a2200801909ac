"""A parsed state machine: each of its paths and templates is a function.

It knows only what `longhaul/cdk/definition.py` uses. Any other type of state, field, intrinsic
function or form of path is refused when the machine is loaded, so that none is silently ignored.

https://states-language.net/spec.html,
https://docs.aws.amazon.com/step-functions/latest/dg/concepts-amazon-states-language.html

Payload templates: the values of Parameters and ResultSelector.

Fields whose names end in `.$` hold a path, a call of States.Format, or the name of the execution.

https://docs.aws.amazon.com/step-functions/latest/dg/input-output-inputpath-params.html
https://docs.aws.amazon.com/step-functions/latest/dg/intrinsic-functions.html

Paths (`$`, `$.name.name`, `$[0]` and mixes of these), and reference paths for writing.

https://docs.aws.amazon.com/step-functions/latest/dg/amazon-states-language-paths.html
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    model_validator,
)
from pydantic.alias_generators import to_pascal

from simulation.aws.stepfunctions.asl.limits import ExecutionError, StateError, runtime_error

Read = Callable[[Any], Any]
Write = Callable[[Any, Any], Any]
"""From the state's input and a value to a copy of the input that has the value."""

_PATH = re.compile(r"\$((\.[A-Za-z_]\w*)|(\[\d+\]))*", re.ASCII)
_REFERENCE = re.compile(r"\$(\.[A-Za-z_]\w*)*", re.ASCII)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]", re.ASCII)


def compile_path(path: object) -> Read:
    """A function that reads the path; a path to nothing fails the execution (States.Runtime)."""
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise ValueError(f"{path!r} is no path of the forms `$`, `$.name`, `$[0]`")
    steps = [name or int(index) for name, index in _STEP.findall(path)]

    def read(data: Any) -> Any:
        found = data
        try:
            for step in steps:
                found = found[step]
        except (KeyError, IndexError, TypeError):
            raise runtime_error(f"The JSONPath '{path}' could not be found in the input") from None
        return found

    return read


def compile_result_path(path: object) -> Write:
    """`$`, the default, replaces the input."""
    if not isinstance(path, str) or not _REFERENCE.fullmatch(path):
        raise ValueError(f"{path!r} is no reference path of the form `$.name`")
    steps = path.split(".")[1:]
    return lambda data, result: _put(data, steps, result)


def _put(data: Any, steps: list[str], result: Any) -> Any:
    if not steps:
        return result
    if not isinstance(data, Mapping):
        # States.ResultPathMatchFailure on AWS. No state of the product can raise it: an input
        # without fields fails earlier.
        raise NotImplementedError("a result is to be put into an input that is no object")
    first, *rest = steps
    return {**data, first: _put(data.get(first, {}), rest, result)}


_FORMAT = re.compile(r"States\.Format\('((?:[^'\\{}]|\{\})*)'((?:, *[^,()]+)+)\)")


Fill = Callable[[Any, str], Any]
"""From a state's data and the execution's name to a payload."""


def compile_template(template: object) -> Fill:
    """The function that fills the template.

    Raises:
        ValueError: a part of the template that is not interpreted.
    """
    if isinstance(template, dict):
        fields = [_field(name, value) for name, value in template.items()]
        return lambda data, execution: {name: fill(data, execution) for name, fill in fields}
    if isinstance(template, list):
        items = [compile_template(item) for item in template]
        return lambda data, execution: [fill(data, execution) for fill in items]
    return lambda _data, _execution: template


def _field(name: str, value: object) -> tuple[str, Fill]:
    if not name.endswith(".$"):
        return name, compile_template(value)
    name = name.removesuffix(".$")
    if value == "$$.Execution.Name":
        return name, lambda _data, execution: execution
    is_call = isinstance(value, str) and value.startswith("States.")
    read = _compile_format(value) if is_call else compile_path(value)
    return name, lambda data, _execution: read(data)


def _compile_format(call: Any) -> Read:
    match = _FORMAT.fullmatch(call)
    if match is None:
        raise ValueError(f"{call!r} is not of the form States.Format('…{{}}…', $.path, …)")
    text: str = match[1]
    arguments = [compile_path(argument.strip()) for argument in match[2].split(",")[1:]]
    if text.count("{}") != len(arguments):
        raise ValueError(f"{call!r} has not as many placeholders as arguments")
    return lambda data: text.format(*(_formatted(argument(data)) for argument in arguments))


def _formatted(value: object) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise NotImplementedError(f"how States.Format writes {value!r} is not known here")


MAX_SECONDS = 99_999_999
"""Of a wait and of a timeout. https://docs.aws.amazon.com/step-functions/latest/dg/state-wait.html"""

Pairs = tuple[tuple[str, str], ...]
Seconds = Annotated[int, Field(ge=0, le=MAX_SECONDS)]
Path = Annotated[Callable[[Any], Any], PlainValidator(compile_path)]
ResultPath = Annotated[Callable[[Any, Any], Any], PlainValidator(compile_result_path)]
Template = Annotated[Callable[[Any, str], Any], PlainValidator(compile_template)]


def _errors(names: list[str]) -> list[str]:
    """`States.ALL` alone, or names of the product's errors."""
    if names != ["States.ALL"] and any(name.startswith("States.") for name in names):
        raise ValueError("is neither States.ALL alone nor errors of our own")
    return names


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_pascal, extra="forbid", frozen=True, strict=True)

    alternatives: ClassVar[Pairs] = ()
    """Pairs of fields of which it needs one and may not have both."""

    @model_validator(mode="after")
    def _has_one_of_each(self) -> Self:
        for fields in self.alternatives:
            if len(self.model_fields_set & {*fields}) != 1:
                raise ValueError(f"needs one of {fields}")
        return self


class _Matcher(_Part):
    error_equals: Annotated[list[str], Field(min_length=1), AfterValidator(_errors)]

    def matches(self, failure: StateError) -> bool:
        if self.error_equals == ["States.ALL"]:
            return not isinstance(failure, ExecutionError)
        return failure.error in self.error_equals


class Retrier(_Matcher):
    """Every field is required: AWS's defaults, such as no jitter, are not implemented."""

    interval_seconds: Annotated[int, Field(ge=1)]
    backoff_rate: Annotated[float, Field(ge=1)]
    max_attempts: Annotated[int, Field(ge=0)]
    max_delay_seconds: Annotated[int, Field(ge=1)]
    jitter_strategy: Literal["FULL"]

    def longest_pause(self, retries: int) -> float:
        """The most seconds before the next try; with full jitter the pause is from 0 to that."""
        return min(self.interval_seconds * self.backoff_rate**retries, self.max_delay_seconds)


class Catcher(_Matcher):
    result_path: ResultPath = compile_result_path("$")
    next: str


class _State(_Part):
    """`name` is that of the state in its map."""

    name: str


class _Followed(_State):
    alternatives: ClassVar[Pairs] = (("next", "end"),)
    next: str | None = None
    end: Literal[True] = True


class _Selecting(_Followed):
    """A state whose results, or errors, become its output."""

    result_selector: Template | None = None
    catch: list[Catcher] = []

    def selected(self, result: Any) -> Any:
        return result if self.result_selector is None else self.result_selector(result, "")


class Task(_Selecting):
    alternatives = (*_Followed.alternatives, ("timeout_seconds", "timeout_seconds_path"))
    type: Literal["Task"]
    resource: Literal[
        "arn:aws:states:::lambda:invoke",
        "arn:aws:states:::ecs:runTask.sync",
        "arn:aws:states:::emr-serverless:startJobRun.sync",
    ]
    parameters: Template
    result_path: ResultPath = compile_result_path("$")
    output_path: Path = compile_path("$")
    timeout_seconds: Annotated[Seconds, Field(ge=1)] | None = None
    timeout_seconds_path: Path | None = None
    retry: list[Retrier] = []

    @property
    def is_sync(self) -> bool:
        return self.resource.endswith(".sync")

    def timeout_s(self, data: Any) -> int:
        return _seconds(self.timeout_seconds, self.timeout_seconds_path, data, least=1)


class Pass(_Followed):
    type: Literal["Pass"]
    result: Any
    result_path: ResultPath


class Wait(_Followed):
    alternatives = (*_Followed.alternatives, ("seconds", "seconds_path"))
    type: Literal["Wait"]
    seconds: Seconds | None = None
    seconds_path: Path | None = None

    def wait_s(self, data: Any) -> int:
        return _seconds(self.seconds, self.seconds_path, data, least=0)


class ChoiceRule(_Part):
    variable: Path
    string_equals: str
    next: str


class Choice(_State):
    type: Literal["Choice"]
    choices: list[ChoiceRule]
    default: str

    def decide(self, data: Any) -> str:
        for rule in self.choices:
            if rule.variable(data) == rule.string_equals:
                return rule.next
        return self.default


class Parallel(_Selecting):
    type: Literal["Parallel"]
    branches: list["States"]


class Succeed(_State):
    type: Literal["Succeed"]


class Fail(_State):
    alternatives = (("cause", "cause_path"),)
    type: Literal["Fail"]
    error: str
    cause: str = ""
    cause_path: Path | None = None

    def cause_of(self, data: Any) -> str:
        found = self.cause if self.cause_path is None else self.cause_path(data)
        if not isinstance(found, str):
            raise runtime_error(f"CausePath of {self.name} leads to {found!r}, which is no text")
        return found


State = Task | Pass | Wait | Choice | Parallel | Succeed | Fail


def _named(states: dict[str, Any]) -> dict[str, Any]:
    return {name: {**fields, "Name": name} for name, fields in states.items()}


class States(_Part):
    """The states of the machine, or of a branch of a Parallel state."""

    start_at: str
    states: Annotated[
        dict[str, Annotated[State, Field(discriminator="type")]], BeforeValidator(_named)
    ]


class Machine(States):
    comment: str = ""


@cache
def load(definition: str) -> Machine:
    """The machine of a definition.

    Raises:
        ValidationError: a part that this interpreter does not know, which the message names.
    """
    return Machine.model_validate(json.loads(definition))


def _seconds(literal: int | None, read: Path | None, data: Any, *, least: int) -> int:
    if literal is not None:
        return literal
    found = read(data) if read is not None else None
    if isinstance(found, int) and not isinstance(found, bool) and least <= found <= MAX_SECONDS:
        return found
    raise runtime_error(f"{found!r} is no whole number of seconds from {least}")
