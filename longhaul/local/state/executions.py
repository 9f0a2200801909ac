"""Executions of Step Functions. One that ran when the embedded AWS ended is aborted by that."""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Final

from moto.stepfunctions.parser.api import ExecutionStatus
from moto.stepfunctions.parser.backend.execution import Execution
from moto.stepfunctions.parser.models import stepfunctions_parser_backends

from longhaul.local.state.store import Store

CAUSE: Final = "the embedded AWS was stopped"
# Of an execution: what is found again by the template, or is gone with its process.
_APART: Final = ("state_machine", "exec_worker", "_activity_store", "_cloud_watch_logging_session")


def keep(store: Store, execution: Any) -> None:
    """Write down what an execution is now; called when its status has changed."""
    kept = {name: value for name, value in vars(execution).items() if name not in _APART}
    store.put("execution", {execution.exec_arn: kept})


def restore(store: Store, account: str, region: str) -> list[Any]:
    """Returns the executions that ran, now ABORTED: their ends are to be published."""
    backend = stepfunctions_parser_backends[account][region]
    machines: dict[str, Any] = {machine.arn: machine for machine in backend.state_machines}
    aborted = []
    for _, kept in store.things("execution"):
        if (machine := machines.get(kept["state_machine_arn"])) is None:
            continue
        execution: Any = Execution.__new__(Execution)
        vars(execution).update(dict.fromkeys(_APART), **kept, state_machine=machine)
        execution.exec_worker = SimpleNamespace(env=None)  # its history is gone
        if execution.exec_status == ExecutionStatus.RUNNING:
            execution.exec_status, execution.cause = ExecutionStatus.ABORTED, CAUSE
            execution.stop_date = datetime.now(UTC)
            aborted.append(execution)
        machine.executions.append(execution)
    return aborted
