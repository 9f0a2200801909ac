"""Plays a script in aws-local-stepfunctions, an interpreter that others wrote.

It runs in Node. Its tasks call back into this process, where the script answers. It does not tell a
task that its branch is over, so the task is cancelled when a branch fails or the execution ends.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from simulation.aws.cloud import FakeAws
from simulation.aws.platform.timeline import Cancellable, Timeline
from simulation.aws.stepfunctions.interpreter import Done, Failed, Result, Submitted
from simulation.aws.stepfunctions.sync import RunTaskSync
from tests.oracles.install import node, npm_packages
from tests.simulation.conformance.in_simulation import result_of_invoke
from tests.simulation.conformance.played import Played, played
from tests.simulation.conformance.scripts import Player, Script

_PROGRAM = Path(__file__).parents[2] / "oracles" / "interpreter.mjs"


@contextmanager
def oracle() -> Iterator[Callable[[Script], Played]]:
    """A function that plays scripts, one after the other.

    Raises:
        NotInstalledError: the interpreter cannot be installed here.
    """
    with subprocess.Popen(
        [str(node()), str(_PROGRAM), str(npm_packages())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield lambda script: _Execution(script, process).play()
        finally:
            process.kill()


class _Execution:
    def __init__(self, script: Script, process: "subprocess.Popen[str]") -> None:
        self._script = script
        self._process = process
        self._aws = FakeAws()
        self._timeline = Timeline(self._aws.clock)
        self._player = Player(script, self._aws)
        self._run_task = RunTaskSync(self._timeline, self._aws.ecs)
        self._tasks: dict[int, Cancellable] = {}  # those that run
        self._events: list[tuple[str, str]] = []
        self._end: dict[str, Any] = {}

    def play(self) -> Played:
        given = json.loads(self._script.input)
        machine = _with_timeouts(json.loads(self._script.definition), given)
        timeouts_ms = [1000 * seconds for seconds in _timeouts(machine)]
        self._send(run={"definition": machine, "input": given, "timeouts_ms": timeouts_ms})
        assert self._process.stdout
        for line in self._process.stdout:
            message = json.loads(line)
            if "end" in message:
                break
            if "task" in message:
                self._call(message["task"]["id"], message["task"]["input"])
            else:
                self._observe(message["event"])
            self._let_tasks_go_on()
        return played(self._end, self._events, self._player, self._aws.gate)

    def _call(self, number: int, given: Mapping[str, Any]) -> None:
        def done(result: Result | Submitted) -> None:
            match result:
                case Submitted():
                    return  # only the history shows it
                case Done():
                    answer: dict[str, Any] = {"result": result.output}
                case Failed():
                    answer = {"error": {"name": result.error, "cause": result.cause}}
            self._tasks.pop(number, None)
            self._send(answer={"id": number, **answer})

        if "FunctionName" in given:
            self._player.invoke(
                given["FunctionName"], given["Payload"], lambda got: done(result_of_invoke(got))
            )
        else:
            if "ApplicationId" in given:
                given = self._player.start_job_run(given)
            self._tasks[number] = self._run_task(dict(given), done)

    def _observe(self, event: Mapping[str, Any]) -> None:
        kind = event["type"]
        if kind in ("StateEntered", "StateExited"):
            state = event["state"]
            self._events.append((f"{state['type']}{kind}", state["name"]))
            if kind == "StateEntered":
                self._player.entered(state["name"])
                if state["name"] == self._script.stopped_in:
                    self._send(stop=True)
        elif kind in ("ParallelBranchFailed", "ExecutionAborted"):
            for task in list(self._tasks.values()):
                task.cancel()
        if kind == "ExecutionSucceeded":
            self._end = {"status": "SUCCEEDED", "output": json.dumps(event["output"])}
        elif kind == "ExecutionFailed":
            self._end = {"status": "FAILED", "error": event["Error"], "cause": event["Cause"]}
        elif kind == "ExecutionAborted":
            self._end = {"status": "ABORTED", "error": "Operator", "cause": "by hand"}

    def _let_tasks_go_on(self) -> None:
        until = self._aws.clock.now() + timedelta(days=1)
        while self._timeline.step(until):
            pass

    def _send(self, **message: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()


def _with_timeouts(machine: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The definition with the values of TimeoutSecondsPath.

    The oracle looks for the path in what `Parameters` makes. AWS looks in the state's input:
    LocalStack's recorded timeouts of `lambda:invoke` with `Parameters` show it.
    """
    for state in machine["States"].values():
        if path := state.pop("TimeoutSecondsPath", None):
            state["TimeoutSeconds"] = given[path.removeprefix("$.")]
        for each in state.get("Branches", []):
            _with_timeouts(each, given)
    return machine


def _timeouts(machine: Mapping[str, Any]) -> Iterator[int]:
    for state in machine["States"].values():
        if "TimeoutSeconds" in state:
            yield state["TimeoutSeconds"]
        for branch in state.get("Branches", []):
            yield from _timeouts(branch)
