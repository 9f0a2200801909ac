"""Step Functions' own word on the state machine: its definition, and each state by itself."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from longhaul.adapters.errors import code_of, message_of
from longhaul.cli.rehearsal.answer import Answer, bad, good, odd
from longhaul.cli.rehearsal.template import Template
from longhaul.cli.target import Target

VALIDATE: Final = ("states:ValidateStateMachineDefinition",)
TEST: Final = ("states:TestState",)

_REPORT: Final = "report it to Longhaul"
_ERROR: Final = {"error": "States.TaskFailed", "cause": "a rehearsal"}
# What an execution may know in any of its states.
_INPUT: Final[Mapping[str, Any]] = {
    "key": "main#rehearsal",
    "stage": "main",
    "run": "1760000000000",
    "attempt": "1",
    "engine": "fargate",
    "size": "small",
    "capacity": "FARGATE",
    "timeout_s": 3600,
    "first_wait_s": 15,
    "rights": {"task_role": "a role", "job_run_role": "a role", "function": "a function"},
    "workers": "--conf spark.executor.cores=1",
    "beat": {"next": "wait", "wait_s": 15, "cause": "a rehearsal"},
    "outcome": "RELEASED",
}
_PAYLOAD: Final = {"outcome": "RELEASED", "next": "wait", "wait_s": 15, "cause": None}
# States that would wait, and those of which nothing can be expected.
_SKIPPED: Final = ("Wait", "Succeed")


@dataclass(frozen=True)
class Trial:
    """One call of TestState, and what it must say. `next_state`: None where the branch ends."""

    what: str
    state: Mapping[str, Any]
    status: str
    next_state: str | None
    given: Mapping[str, Any]
    mock: Mapping[str, Any] | None = None
    configuration: Mapping[str, Any] | None = None


def validated(target: Target, template: Template) -> Iterator[Answer]:
    """The definition, by `ValidateStateMachineDefinition`, warnings too."""
    client = target.client("stepfunctions")
    for name, definition in template.machines():
        answer = client.validate_state_machine_definition(
            definition=definition, type="STANDARD", severity="WARNING"
        )
        for each in answer["diagnostics"]:
            said = bad if each["severity"] == "ERROR" else odd
            place = f" at {each['location']}" if each.get("location") else ""
            yield said(f"definition {name}{place}", f"{each['code']}: {each['message']}", _REPORT)
        if answer["result"] == "OK":
            yield good(f"definition {name}", "OK: it can be created")
        elif not answer["diagnostics"]:
            yield bad(f"definition {name}", "FAIL, without a diagnosis", _REPORT)


def tested(target: Target, template: Template) -> Iterator[Answer]:
    """Each state, by `TestState`; what it would call is a mock, so that no role is needed."""
    client = target.client("stepfunctions")
    for _, text in template.machines():
        count, wrong = 0, False
        for trial in trials(json.loads(text)):
            count += 1
            if (answer := _answer(client, trial)) is not None:
                wrong = True
                yield answer
        if not wrong:
            yield good("states", f"{count} steps end as the definition means them")


def _answer(client: Any, trial: Trial) -> Answer | None:  # noqa: ANN401 - one of boto3's clients
    """None where Step Functions says what was expected."""
    call: dict[str, Any] = {
        "definition": json.dumps(trial.state),
        "input": json.dumps(trial.given),
    }
    if trial.mock is not None:
        # What a service answers is AWS's own: the question is what the state makes of it.
        call["mock"] = {**trial.mock, "fieldValidationMode": "NONE"}
        call["context"] = json.dumps({"Execution": {"Name": "rehearsal"}})
    if trial.configuration is not None:
        call["stateConfiguration"] = trial.configuration
    try:
        answer = client.test_state(**call)
    except ClientError as error:
        if code_of(error) not in ("InvalidDefinition", "InvalidExecutionInput"):
            raise
        return bad(trial.what, f"{code_of(error)}: {message_of(error)}", _REPORT)
    if (answer["status"], answer.get("nextState")) == (trial.status, trial.next_state):
        return None
    expected = f"{trial.status}, then {trial.next_state}"
    why = f": {answer['error']}: {answer.get('cause', '')}" if answer.get("error") else ""
    return bad(
        trial.what,
        f"{answer['status']}, then {answer.get('nextState')}{why}; expected: {expected}",
        _REPORT,
    )


def trials(definition: Mapping[str, Any]) -> Iterator[Trial]:
    """What each state must do, and so a call for each of its ways out."""
    for name, state in definition["States"].items():
        match state["Type"]:
            case "Choice":
                yield from _choices(name, state)
            case "Task":
                payload = {"StatusCode": 200, "Payload": _PAYLOAD}
                yield from _works(name, state, payload)
                yield from _fails(name, state, ["States.TaskFailed"], None)
            case "Parallel":
                yield from _works(name, state, ["RELEASED"] * len(state["Branches"]))
                inner = [key for each in state["Branches"] for key in each["States"]]
                for caught in state.get("Catch", ()):
                    yield from _fails(name, state, caught["ErrorEquals"], inner)
                for branch in state["Branches"]:
                    yield from trials(branch)
            case "Pass":
                yield Trial(name, state, "SUCCEEDED", state.get("Next"), _INPUT)
            case "Fail":
                yield Trial(name, state, "FAILED", None, _INPUT)
            case kind if kind not in _SKIPPED:
                raise NotImplementedError(f"a trial of the state {name}, a {kind}")


def _choices(name: str, state: Mapping[str, Any]) -> Iterator[Trial]:
    for choice in state["Choices"]:
        variable, value = choice["Variable"], choice["StringEquals"]
        given = _with(variable, value)
        yield Trial(f"{name} with {value}", state, "SUCCEEDED", choice["Next"], given)
        unknown = _with(variable, "a rehearsal")
    yield Trial(f"{name} with another", state, "SUCCEEDED", state["Default"], unknown)


def _works(name: str, state: Mapping[str, Any], result: object) -> Iterator[Trial]:
    mock = {"result": json.dumps(result)}
    yield Trial(name, state, "SUCCEEDED", state.get("Next"), _INPUT, mock)


def _fails(
    name: str, state: Mapping[str, Any], errors: list[str], inner: list[str] | None
) -> Iterator[Trial]:
    """After the last retry, if there is one: `RETRIABLE` would be the answer before."""
    retries = sum(each["MaxAttempts"] for each in state.get("Retry", ()))
    catch = next(iter(state.get("Catch", ())), None)
    for error in errors:
        mock = {"errorOutput": {**_ERROR, "error": error}}
        configuration: dict[str, Any] = {"retrierRetryCount": retries} if retries else {}
        if inner is not None:
            configuration["errorCausedByState"] = error if error in inner else inner[0]
        yield Trial(
            f"{name} after {error}",
            state,
            "CAUGHT_ERROR" if catch else "FAILED",
            catch["Next"] if catch else None,
            _INPUT,
            mock,
            configuration or None,
        )


def _with(variable: str, value: str) -> dict[str, Any]:
    """The input in which the variable, such as `$.beat.next`, has the value."""
    first, *rest = variable.removeprefix("$.").split(".")
    inner: Any = value
    for part in reversed(rest):
        inner = {part: inner}
    return {**_INPUT, first: inner}
