"""Parses and validates a definition.

https://states-language.net/spec.html,
https://docs.aws.amazon.com/step-functions/latest/dg/concepts-amazon-states-language.html
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from simulation.aws.stepfunctions.asl.errors import (
    ExecutionError,
    StateError,
    UnsupportedError,
    runtime_error,
)
from simulation.aws.stepfunctions.asl.machine import (
    Catcher,
    Choice,
    ChoiceRule,
    Fail,
    Machine,
    Parallel,
    Pass,
    Retrier,
    State,
    States,
    Succeed,
    Task,
    Wait,
)
from simulation.aws.stepfunctions.asl.paths import Read, compile_path, compile_result_path
from simulation.aws.stepfunctions.asl.templates import compile_template

Fields = Mapping[str, Any]

_RESOURCE = re.compile(r"arn:aws[\w-]*:states:::[\w-]+:\w+(\.sync)?")

# The least values of a retrier's numbers.
_LEAST = {"IntervalSeconds": 1, "BackoffRate": 1, "MaxAttempts": 0, "MaxDelaySeconds": 1}

MAX_SECONDS = 99_999_999
"""Of a wait and of a timeout. https://docs.aws.amazon.com/step-functions/latest/dg/state-wait.html"""


@cache
def load(definition: str) -> Machine:
    """The machine of a definition.

    Raises:
        UnsupportedError: a part that this interpreter does not know, which the message names.
    """
    fields = json.loads(definition)
    _check_fields(fields, "the machine", required={"StartAt", "States"}, optional={"Comment"})
    top = _states({key: value for key, value in fields.items() if key != "Comment"}, "the machine")
    found = list(_all_states(top))
    if len(names := [state.name for state in found]) != len(set(names)):
        raise UnsupportedError("the machine", "two states have one name")
    return Machine(top, frozenset(state.resource for state in found if isinstance(state, Task)))


def _all_states(within: States) -> Iterator[State]:
    for state in within.states.values():
        yield state
        if isinstance(state, Parallel):
            for branch in state.branches:
                yield from _all_states(branch)


def _states(fields: Fields, where: str) -> States:
    _check_fields(fields, where, required={"StartAt", "States"})
    states = {name: _state(name, each) for name, each in fields["States"].items()}
    targets = {target for state in states.values() for target in _targets(state)} | {
        fields["StartAt"]
    }
    if unknown := targets - states.keys():
        raise UnsupportedError(
            where, f"goes to {sorted(map(str, unknown))}, which it does not have"
        )
    if unreached := states.keys() - targets:
        raise UnsupportedError(where, f"nothing leads to {sorted(unreached)}")
    return States(fields["StartAt"], states)


def _targets(state: State) -> set[str]:
    match state:
        case Task() | Parallel():
            return {each.next for each in state.catchers} | ({state.next} if state.next else set())
        case Wait() | Pass():
            return {state.next} if state.next else set()
        case Choice():
            return {rule.next for rule in state.rules} | {state.default}
        case _:
            return set()


def _state(name: str, fields: Fields) -> State:
    if not isinstance(fields, Mapping):
        raise UnsupportedError(name, f"{fields!r} is no object")
    makers: Mapping[Any, Callable[[str, Fields], State]] = {
        "Task": _task,
        "Pass": _pass,
        "Wait": _wait,
        "Choice": _choice,
        "Parallel": _parallel,
        "Succeed": _succeed,
        "Fail": _fail,
    }
    if fields.get("Type") not in makers:
        raise UnsupportedError(name, f"states of type {fields.get('Type')!r} are not interpreted")
    return makers[fields["Type"]](
        name, {key: value for key, value in fields.items() if key != "Type"}
    )


def _task(name: str, fields: Fields) -> Task:
    _check_fields(
        fields,
        name,
        required={"Resource", "Parameters"},
        optional={"ResultSelector", "ResultPath", "OutputPath", "Retry", "Catch", "Next", "End"},
        one_of=("TimeoutSeconds", "TimeoutSecondsPath"),
    )
    resource: str = fields["Resource"]
    if not _RESOURCE.fullmatch(resource):
        raise UnsupportedError(
            f"{name}.Resource", f"{resource!r} is no service integration, alone or with .sync"
        )
    return Task(
        name,
        resource=resource,
        service=resource.split(":")[5],
        is_sync=resource.endswith(".sync"),
        parameters=compile_template(fields["Parameters"], f"{name}.Parameters"),
        select=_select(name, fields),
        put=compile_result_path(fields.get("ResultPath", "$"), name),
        output=compile_path(fields.get("OutputPath", "$"), f"{name}.OutputPath"),
        timeout_s=_seconds(name, fields, "TimeoutSeconds", "TimeoutSecondsPath", least=1),
        retriers=tuple(_retrier(name, each) for each in fields.get("Retry", [])),
        catchers=tuple(_catcher(name, each) for each in fields.get("Catch", [])),
        next=_next(name, fields),
    )


def _pass(name: str, fields: Fields) -> Pass:
    _check_fields(fields, name, required={"Result", "ResultPath"}, optional={"Next", "End"})
    put = compile_result_path(fields["ResultPath"], name)
    return Pass(name, fields["Result"], put, _next(name, fields))


def _wait(name: str, fields: Fields) -> Wait:
    _check_fields(fields, name, optional={"Next", "End"}, one_of=("Seconds", "SecondsPath"))
    return Wait(
        name, _seconds(name, fields, "Seconds", "SecondsPath", least=0), _next(name, fields)
    )


def _choice(name: str, fields: Fields) -> Choice:
    _check_fields(fields, name, required={"Choices", "Default"})
    return Choice(name, tuple(_rule(name, rule) for rule in fields["Choices"]), fields["Default"])


def _rule(name: str, rule: Fields) -> ChoiceRule:
    _check_fields(rule, f"{name}.Choices", required={"Variable", "StringEquals", "Next"})
    if not isinstance(rule["StringEquals"], str):
        raise UnsupportedError(
            name, f"StringEquals compares with a string, not with {rule['StringEquals']!r}"
        )
    return ChoiceRule(
        compile_path(rule["Variable"], f"{name}.Variable"), rule["StringEquals"], rule["Next"]
    )


def _parallel(name: str, fields: Fields) -> Parallel:
    _check_fields(
        fields, name, required={"Branches"}, optional={"ResultSelector", "Catch", "Next", "End"}
    )
    return Parallel(
        name,
        branches=tuple(
            _states(branch, f"{name}.Branches[{n}]") for n, branch in enumerate(fields["Branches"])
        ),
        select=_select(name, fields),
        catchers=tuple(_catcher(name, each) for each in fields.get("Catch", [])),
        next=_next(name, fields),
    )


def _succeed(name: str, fields: Fields) -> Succeed:
    _check_fields(fields, name)
    return Succeed(name)


def _fail(name: str, fields: Fields) -> Fail:
    _check_fields(fields, name, required={"Error"}, one_of=("Cause", "CausePath"))
    if "Cause" in fields:
        return Fail(name, fields["Error"], lambda _data: fields["Cause"])
    read = compile_path(fields["CausePath"], f"{name}.CausePath")

    def cause(data: Any) -> str:
        found = read(data)
        if not isinstance(found, str):
            raise runtime_error(f"{name}.CausePath leads to {found!r}, which is no text")
        return found

    return Fail(name, fields["Error"], cause)


def _retrier(name: str, fields: Fields) -> Retrier:
    # Every field is required: AWS's defaults, such as JitterStrategy NONE, are not implemented.
    _check_fields(fields, f"{name}.Retry", required={"ErrorEquals", "JitterStrategy", *_LEAST})
    if fields["JitterStrategy"] != "FULL":
        raise UnsupportedError(
            name, f"JitterStrategy {fields['JitterStrategy']!r} is not interpreted, only FULL"
        )
    for number, least in _LEAST.items():
        if not isinstance(fields[number], int | float) or fields[number] < least:
            raise UnsupportedError(
                f"{name}.Retry.{number}", f"{fields[number]!r} is less than {least}"
            )
    return Retrier(
        _matcher(name, fields["ErrorEquals"]),
        max_attempts=fields["MaxAttempts"],
        interval_s=fields["IntervalSeconds"],
        backoff_rate=fields["BackoffRate"],
        max_delay_s=fields["MaxDelaySeconds"],
    )


def _catcher(name: str, fields: Fields) -> Catcher:
    _check_fields(
        fields, f"{name}.Catch", required={"ErrorEquals", "Next"}, optional={"ResultPath"}
    )
    put = compile_result_path(fields.get("ResultPath", "$"), name)
    return Catcher(_matcher(name, fields["ErrorEquals"]), put, fields["Next"])


def _matcher(name: str, errors: Sequence[str]) -> Callable[[StateError], bool]:
    """`States.ALL` alone, or names of the product's errors."""
    if list(errors) == ["States.ALL"]:
        return lambda failure: not isinstance(failure, ExecutionError)
    if not errors or any(error.startswith("States.") for error in errors):
        raise UnsupportedError(
            name, f"ErrorEquals {errors} is neither States.ALL alone nor errors of our own"
        )
    known = frozenset(errors)
    return lambda failure: failure.error in known


def _select(name: str, fields: Fields) -> Read:
    if "ResultSelector" not in fields:
        return lambda result: result
    fill = compile_template(fields["ResultSelector"], f"{name}.ResultSelector")
    return lambda result: fill(result, "")


def _seconds(name: str, fields: Fields, literal: str, path: str, *, least: int) -> Read:
    if literal in fields:
        seconds = fields[literal]
        if not _is_seconds(seconds, least):
            raise UnsupportedError(
                f"{name}.{literal}", f"{seconds!r} is no whole number of seconds from {least}"
            )
        return lambda _data: seconds
    read = compile_path(fields[path], f"{name}.{path}")

    def seconds_of(data: Any) -> int:
        found: int = read(data)
        if not _is_seconds(found, least):
            raise runtime_error(
                f"{name}.{path} leads to {found!r}, which is no whole number of seconds"
                f" from {least}"
            )
        return found

    return seconds_of


def _is_seconds(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MAX_SECONDS


def _next(name: str, fields: Fields) -> str | None:
    if ("Next" in fields) == ("End" in fields) or fields.get("End", True) is not True:
        raise UnsupportedError(name, "needs either Next or End")
    following: str | None = fields.get("Next")
    return following


def _check_fields(
    fields: object,
    where: str,
    *,
    required: Iterable[str] = (),
    optional: Iterable[str] = (),
    one_of: Sequence[str] = (),
) -> None:
    if not isinstance(fields, Mapping):
        raise UnsupportedError(where, f"{fields!r} is no object")
    if unknown := fields.keys() - {*required, *optional, *one_of}:
        raise UnsupportedError(where, f"{sorted(unknown)} is not interpreted")
    if missing := {*required} - fields.keys():
        raise UnsupportedError(where, f"lacks {sorted(missing)}")
    if one_of and len(fields.keys() & {*one_of}) != 1:
        raise UnsupportedError(where, f"needs one of {list(one_of)}")
