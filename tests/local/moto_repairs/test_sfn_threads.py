import threading
from collections.abc import Callable
from typing import Any

from longhaul.local.moto_repairs import sfn as sfn_repairs
from tests.local.support import Moto, branch, eventually

WAIT = {"Type": "Wait", "Seconds": 600, "End": True}
BOTH = {"Type": "Parallel", "Branches": [branch(A=WAIT), branch(B=WAIT)], "End": True}


def waits(running: Any, execution: str) -> int:
    events = running.client.get_execution_history(executionArn=execution)["events"]
    return [event["type"] for event in events].count("WaitStateEntered")


def test_execution_of_two_branches_takes_four_threads(
    moto: Moto, machine: Callable[..., Any], *, repaired: bool
) -> None:
    sfn_repairs.interrupts(moto.patches)
    if repaired:
        sfn_repairs.threads(moto.patches)
    running = machine(Both=BOTH)
    before = set(threading.enumerate())

    execution = running.start()
    eventually(lambda: waits(running, execution) == 2, "both branches wait")
    taken = [
        thread.name
        for thread in set(threading.enumerate()) - before
        if "process_request" not in thread.name
    ]
    running.client.stop_execution(executionArn=execution)
    eventually(lambda: running.status(execution) == "ABORTED", "the execution ends")

    # One each for the execution, its Parallel state and two branches. Stock moto adds one for the
    # machine and one for each branch.
    assert len(taken) == (4 if repaired else 7)
