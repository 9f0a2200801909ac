"""The simulation and moto's repaired interpreter do the same with the same script.

Each difference, where AWS's documentation or a recording agrees with the simulation, has a rule in
`tests/fidelity`, or a row below where a task belongs to it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from simulation.aws.service import RefusedError
from tests.simulation.conformance import in_simulation
from tests.simulation.conformance.in_moto import repaired_moto
from tests.simulation.conformance.played import Played
from tests.simulation.conformance.scripts import (
    NO_CAPACITY,
    RELEASED,
    SUCCEEDED,
    End,
    Raises,
    Refuses,
    Script,
    beat,
)

STALLED = beat("JobStalled", None, "no progress for 900 s")
# The lease's branch waits until the rest of the execution ends it.
LONG_WAIT = (beat("wait", 3600),)

TO_THE_END: Mapping[str, Script] = {
    "the job succeeds": Script(),
    "the job succeeds before the first beat": Script(beats=(), end=End(after_beat=0)),
    "the job exits with 1": Script(end=End(exit_code=1), settles=(RELEASED,)),
    "the job cannot succeed": Script(end=End(exit_code=65), settles=({"outcome": "DEAD"},)),
    "the job is superseded": Script(end=End(exit_code=73), settles=({"outcome": "SUPERSEDED"},)),
    "the task never starts": Script(
        end=End(exit_code=None, stop_code="TaskFailedToStart", reason="CannotPullContainerError"),
        settles=(RELEASED,),
    ),
    "a beat fails and a retry succeeds": Script(
        beats=(Refuses("TooManyRequestsException", status=429), beat("wait"))
    ),
    "a beat fails for a while": Script(
        beats=(beat("wait"), *[Raises("ClientError")] * 4, beat("wait")), end=End(after_beat=6)
    ),
    "a beat answers what the definition does not know": Script(beats=(beat("newer"), beat("wait"))),
    "settle is retried": Script(
        settles=(Refuses("ServiceException"), Raises("ClientError"), SUCCEEDED)
    ),
    "settle answers what the definition does not know": Script(settles=({"outcome": "NEWER"},)),
    "settle answers nothing": Script(settles=({"outcome": None},)),
}
SOMETHING_STOPPED: Mapping[str, Script] = {
    "the task takes too long": Script(
        end=None, beats=(), settles=(RELEASED,), changes={"timeout_s": 1}
    ),
    "the job stalls": Script(beats=(beat("wait"), STALLED), end=None, settles=(RELEASED,)),
    "the job is cancelled": Script(
        beats=(beat("JobCancelled", None, "asked to"),),
        end=None,
        settles=({"outcome": "CANCELLED"},),
    ),
    "the lease is lost": Script(
        beats=(beat("LeaseLost", None, "attempt 2 owns it"),),
        end=None,
        settles=({"outcome": "SUPERSEDED"},),
    ),
    "settle fails for good": Script(
        beats=LONG_WAIT, ends_in="Wait", settles=(Raises("ClientError"),)
    ),
    "settle fails for good after a kill": Script(
        beats=(STALLED,), end=None, settles=(Raises("ClientError"),)
    ),
    "an operator stops the execution": Script(beats=LONG_WAIT, end=None, stopped_in="Wait"),
}
BEYOND_ANY_CATCH: Mapping[str, Script] = {
    "a beat's answer lacks a field": Script(
        beats=(beat("wait"), {"next": "wait", "wait_s": 15}), end=None
    ),
    "a wait is a fraction": Script(beats=(beat("wait", 1.5),), end=None),
    "a wait is a text": Script(beats=(beat("wait", "15"),), end=None),
    "a wait is negative": Script(beats=(beat("wait", -1),), end=None),
    "settle's answer lacks the outcome": Script(beats=LONG_WAIT, ends_in="Wait", settles=({},)),
    "settle's answer is too long": Script(
        beats=LONG_WAIT, ends_in="Wait", settles=({"outcome": "x" * 262_144},)
    ),
}
Play = Callable[[Script], Played]


@pytest.fixture(scope="module")
def in_moto() -> Iterator[Play]:
    with repaired_moto() as play:
        yield play


def states(of: Played) -> Mapping[str, list[str]]:
    """By branch, the states entered and left."""
    return {
        branch: [
            step for step in steps if step.split()[0].endswith(("StateEntered", "StateExited"))
        ]
        for branch, steps in of.steps.items()
    }


@pytest.mark.parametrize("script", TO_THE_END.values(), ids=TO_THE_END.keys())
def test_execution_that_stops_nothing_has_the_same_history_calls_and_end(
    in_moto: Play, script: Script
) -> None:
    assert in_simulation.play(script) == in_moto(script)


@pytest.mark.parametrize("script", SOMETHING_STOPPED.values(), ids=SOMETHING_STOPPED.keys())
def test_execution_that_stops_something_has_the_same_states_calls_and_end(
    in_moto: Play, script: Script
) -> None:
    simulated, of_moto = in_simulation.play(script), in_moto(script)

    assert states(simulated) == states(of_moto)
    assert replace(simulated, steps={}) == replace(of_moto, steps={})


@pytest.mark.parametrize("script", BEYOND_ANY_CATCH.values(), ids=BEYOND_ANY_CATCH.keys())
def test_error_beyond_any_catch_fails_the_execution_in_the_same_state(
    in_moto: Play, script: Script
) -> None:
    simulated, of_moto = in_simulation.play(script), in_moto(script)

    assert states(simulated) == states(of_moto)
    assert simulated.error in ("States.Runtime", "States.DataLimitExceeded")
    # The words of the cause differ.
    assert replace(simulated, steps={}, cause=None) == replace(of_moto, steps={}, cause=None)


@pytest.mark.parametrize(
    ("refusal", "as_aws", "as_moto"),
    [
        # AWS sends the answer with its failures: `events/settle/run-task-failures.json`.
        (NO_CAPACITY, "Capacity is unavailable at this time", "RunTask started no task"),
        # And message, service, status and code: `events/settle/run-task-throttled.json`.
        (
            RefusedError("ThrottlingException", "Rate exceeded"),
            "Rate exceeded (Service: AmazonECS; Status Code: 400; Error Code: ThrottlingException;",
            "Rate exceeded",
        ),
        (
            RefusedError("InvalidParameterException", "Rate exceeded"),
            "Error Code: InvalidParameterException;",
            "Rate exceeded",
        ),
        (RefusedError("ServerException", "sorry", status=500), "Status Code: 500;", "sorry"),
    ],
    ids=["no capacity", "throttled", "throttled in disguise", "ECS is down"],
)
def test_run_task_that_starts_nothing_is_settled_under_the_same_error_with_less_of_its_cause(
    in_moto: Play, refusal: Exception, as_aws: str, as_moto: str
) -> None:
    script = Script(refusal=refusal, settles=(RELEASED,))
    simulated, of_moto = in_simulation.play(script), in_moto(script)

    cause, shorter = (
        each.calls["settle"][0]["error"].pop("Cause") for each in (simulated, of_moto)
    )
    assert as_aws in str(cause)
    assert shorter == as_moto
    assert simulated == of_moto
