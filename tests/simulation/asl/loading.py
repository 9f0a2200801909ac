"""From a definition's text to a machine, or a refusal.

https://states-language.net/spec.html, https://docs.aws.amazon.com/step-functions/latest/dg/concepts-amazon-states-language.html
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from tests.simulation.asl.errors import UnsupportedError, runtime_error
from tests.simulation.asl.machine import (
    Catcher,
    Choice,
    Fail,
    Machine,
    Parallel,
    Retrier,
    Rule,
    State,
    States,
    Succeed,
    Task,
    Wait,
)
from tests.simulation.asl.paths import Read, compile_path, compile_result_path
from tests.simulation.asl.templates import compile_template

Fields = Mapping[str, Any]

MAX_SECONDS = 99_999_999
"""Of a wait and of a timeout; a task without a timeout has this one."""


@cache
def load(definition: str) -> Machine:
    """The machine of a definition.

    Raises:
        UnsupportedError: this interpreter does not do what the definition says, and says which part.
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
    targets = {target for state in states.values() for target in _targets(state)} | {fields["StartAt"]}
    if unknown := targets - states.keys():
        raise UnsupportedError(where, f"goes to {sorted(map(str, unknown))}, which it does not have")
    if unreached := states.keys() - targets:
        raise UnsupportedError(where, f"nothing leads to {sorted(unreached)}")
    return States(fields["StartAt"], states)


def _targets(state: State) -> set[str]:
    match state:
        case Task() | Parallel():
            return {each.next for each in state.catchers} | ({state.next} if state.next else set())
        case Wait():
            return {state.next} if state.next else set()
        case Choice():
            return {rule.next for rule in state.rules} | {state.default}
        case _:
            return set()


def _state(name: str, fields: Fields) -> State:
    makers: Mapping[Any, Callable[[str, Fields], State]] = {
        "Task": _task,
        "Wait": _wait,
        "Choice": _choice,
        "Parallel": _parallel,
        "Succeed": _succeed,
        "Fail": _fail,
    }
    if fields.get("Type") not in makers:
        raise UnsupportedError(name, f"states of type {fields.get('Type')!r} are not interpreted")
    return makers[fields["Type"]](name, {key: value for key, value in fields.items() if key != "Type"})


def _task(name: str, fields: Fields) -> Task:
    _check_fields(
        fields,
        name,
        required={"Resource", "Parameters"},
        optional={"ResultSelector", "ResultPath", "OutputPath", "Retry", "Catch", "Next", "End"},
        one_of=("TimeoutSeconds", "TimeoutSecondsPath"),
    )
    return Task(
        name,
        resource=fields["Resource"],
        is_sync=fields["Resource"].endswith(".sync"),
        parameters=compile_template(fields["Parameters"], f"{name}.Parameters"),
        select=_select(name, fields),
        put=compile_result_path(fields.get("ResultPath", "$"), name),
        output=compile_path(fields.get("OutputPath", "$"), f"{name}.OutputPath"),
        timeout_s=_seconds(name, fields, "TimeoutSeconds", "TimeoutSecondsPath", least=1),
        retriers=tuple(_retrier(name, each) for each in fields.get("Retry", [])),
        catchers=tuple(_catcher(name, each) for each in fields.get("Catch", [])),
        next=_next(name, fields),
    )


def _wait(name: str, fields: Fields) -> Wait:
    _check_fields(fields, name, optional={"Next", "End"}, one_of=("Seconds", "SecondsPath"))
    return Wait(name, _seconds(name, fields, "Seconds", "SecondsPath", least=0), _next(name, fields))


def _choice(name: str, fields: Fields) -> Choice:
    _check_fields(fields, name, required={"Choices", "Default"})
    return Choice(name, tuple(_rule(name, rule) for rule in fields["Choices"]), fields["Default"])


def _rule(name: str, rule: Fields) -> Rule:
    _check_fields(rule, f"{name}.Choices", required={"Variable", "StringEquals", "Next"})
    if not isinstance(rule["StringEquals"], str):
        raise UnsupportedError(name, f"StringEquals compares with a string, not with {rule['StringEquals']!r}")
    return Rule(compile_path(rule["Variable"], f"{name}.Variable"), rule["StringEquals"], rule["Next"])


def _parallel(name: str, fields: Fields) -> Parallel:
    _check_fields(fields, name, required={"Branches"}, optional={"ResultSelector", "Catch", "Next", "End"})
    return Parallel(
        name,
        branches=tuple(_states(branch, f"{name}.Branches[{n}]") for n, branch in enumerate(fields["Branches"])),
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
    return Fail(name, fields["Error"], lambda data: _typed(read(data), str, f"{name}.CausePath"))


def _retrier(name: str, fields: Fields) -> Retrier:
    # MaxAttempts and JitterStrategy have defaults on AWS (3, NONE) that ours never rely on.
    numbers = {"IntervalSeconds", "BackoffRate", "MaxAttempts", "MaxDelaySeconds"}
    _check_fields(fields, f"{name}.Retry", required=numbers | {"ErrorEquals", "JitterStrategy"})
    if fields["JitterStrategy"] != "FULL":
        raise UnsupportedError(name, f"JitterStrategy {fields['JitterStrategy']!r} is not interpreted, only FULL")
    interval, rate, attempts, most = (fields[number] for number in sorted(numbers, key=_RETRIER_ORDER.index))
    if interval < 1 or rate < 1 or attempts < 0 or most <= interval:
        raise UnsupportedError(f"{name}.Retry", "a number is outside of what Step Functions accepts")
    return Retrier(_matcher(name, fields["ErrorEquals"]), attempts, interval, rate, most)


_RETRIER_ORDER = ("IntervalSeconds", "BackoffRate", "MaxAttempts", "MaxDelaySeconds")


def _catcher(name: str, fields: Fields) -> Catcher:
    _check_fields(fields, f"{name}.Catch", required={"ErrorEquals", "Next"}, optional={"ResultPath"})
    put = compile_result_path(fields.get("ResultPath", "$"), name)
    return Catcher(_matcher(name, fields["ErrorEquals"]), put, fields["Next"])


def _matcher(name: str, errors: Sequence[str]) -> Callable[[str], bool]:
    """`States.ALL` alone, or names of our own. What `States.ALL` does not match never asks."""
    if list(errors) == ["States.ALL"]:
        return lambda _error: True
    if not errors or any(error.startswith("States.") for error in errors):
        raise UnsupportedError(name, f"ErrorEquals {errors} is neither States.ALL alone nor errors of our own")
    known = frozenset(errors)
    return lambda error: error in known


def _select(name: str, fields: Fields) -> Read:
    if "ResultSelector" not in fields:
        return lambda result: result
    return compile_template(fields["ResultSelector"], f"{name}.ResultSelector")


def _seconds(name: str, fields: Fields, literal: str, path: str, *, least: int) -> Read:
    if literal in fields:
        seconds = fields[literal]
        if not _is_seconds(seconds, least):
            raise UnsupportedError(f"{name}.{literal}", f"{seconds!r} is no whole number of seconds from {least}")
        return lambda _data: seconds
    if path not in fields:
        return lambda _data: MAX_SECONDS
    read = compile_path(fields[path], f"{name}.{path}")

    def seconds_of(data: Any) -> int:
        found: int = read(data)
        if not _is_seconds(found, least):
            raise runtime_error(f"{name}.{path} leads to {found!r}, which is no whole number of seconds from {least}")
        return found

    return seconds_of


def _is_seconds(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MAX_SECONDS


def _typed(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, kind):
        raise runtime_error(f"{where} leads to {value!r}")
    return value


def _next(name: str, fields: Fields) -> str | None:
    if ("Next" in fields) == ("End" in fields) or fields.get("End", True) is not True:
        raise UnsupportedError(name, "needs either Next or End")
    following: str | None = fields.get("Next")
    return following


def _check_fields(
    fields: object,
    where: str,
    *,
    required: set[str] | frozenset[str] = frozenset(),
    optional: set[str] | frozenset[str] = frozenset(),
    one_of: tuple[str, ...] = (),
) -> None:
    if not isinstance(fields, Mapping):
        raise UnsupportedError(where, f"{fields!r} is no object")
    if unknown := fields.keys() - required - optional - set(one_of):
        raise UnsupportedError(where, f"{sorted(unknown)} is not interpreted")
    if missing := required - fields.keys():
        raise UnsupportedError(where, f"lacks {sorted(missing)}")
    if one_of and len(fields.keys() & set(one_of)) != 1:
        raise UnsupportedError(where, f"needs one of {one_of}")
