"""Executions of Step Functions. One that ran when the embedded AWS ended is aborted by that."""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Final

from moto.stepfunctions.parser.api import ExecutionStatus
from moto.stepfunctions.parser.backend.execution import Execution
from moto.stepfunctions.parser.models import stepfunctions_parser_backends

from longhaul.local.state.store import Store

CAUSE: Final = "the embedded AWS was stopped"


def keep(store: Store, execution: Any) -> None:
    """Write down what an execution is now; called when its status has changed."""
    if not store.recording:
        return
    stopped = execution.stop_date
    data = {
        "name": execution.name,
        "machine": execution.state_machine_arn,
        "role": execution.role_arn,
        "input": execution.execution_input,
        "status": execution.status,
        "stopped": stopped.timestamp() if stopped else None,
        "output": execution.output,
        "error": execution.error,
        "cause": execution.cause,
    }
    started = execution.start_date.timestamp()
    with store.writing() as database:
        database.execute(
            "INSERT OR REPLACE INTO execution VALUES (?, ?, ?)",
            (execution.exec_arn, started, json.dumps(data)),
        )


def restore(store: Store, account: str, region: str) -> list[Any]:
    """Returns the executions that ran, now ABORTED: their ends are to be published."""
    backend = stepfunctions_parser_backends[account][region]
    machines: dict[str, Any] = {machine.arn: machine for machine in backend.state_machines}
    aborted = []
    for arn, started, text in store.rows("SELECT arn, started, data FROM execution"):
        data = json.loads(text)
        if (machine := machines.get(data["machine"])) is None:
            continue
        execution: Any = Execution(
            name=data["name"],
            sm_type=machine.sm_type,
            role_arn=data["role"],
            exec_arn=arn,
            account_id=account,
            region_name=region,
            state_machine=machine,
            start_date=datetime.fromtimestamp(started, UTC),
            cloud_watch_logging_session=None,
            activity_store={},
            input_data=data["input"],
        )
        execution.exec_worker = SimpleNamespace(env=None)  # its history is gone
        execution.exec_status = ExecutionStatus(data["status"])
        execution.output, execution.error = data["output"], data["error"]
        execution.cause = data["cause"]
        if execution.exec_status == ExecutionStatus.RUNNING:
            execution.exec_status, execution.cause = ExecutionStatus.ABORTED, CAUSE
            data["stopped"] = datetime.now(UTC).timestamp()
            aborted.append(execution)
        execution.stop_date = datetime.fromtimestamp(data["stopped"], UTC)
        machine.executions.append(execution)
    return aborted
