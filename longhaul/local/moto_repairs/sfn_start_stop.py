"""StartExecution is idempotent, and StopExecution takes effect at once.

AWS: two starts with the same name and input are one execution, however close in time. StopExecution
takes effect at once, even just after the start, and records error and cause. An execution that has
ended does not change.

Stock moto: two starts at the same moment make two executions. A stop just after the start fails or
is lost, and a describe at that moment fails. A stop shows only after the running task has ended,
which may take minutes, and its error and cause are dropped.

A stop before the first state also needs `sfn_threads`, and one during a wait `sfn_interrupts`.
Status changes happen here, so their callback for EventBridge is here too.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from threading import RLock, Thread
from typing import Any

from moto.core.responses import ActionResult
from moto.stepfunctions.parser.api import ExecutionStatus
from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication, Execution
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker
from moto.stepfunctions.parser.models import (
    StepFunctionsParserBackend,
    stepfunctions_parser_backends,
)
from moto.stepfunctions.responses import StepFunctionResponse

from longhaul.local.moto_repairs.patching import Patches


def apply(
    patches: Patches, on_status_change: Callable[[Any], None] = lambda _execution: None
) -> None:
    lock = RLock()
    stock_start_execution = StepFunctionsParserBackend.start_execution
    stock_reflect: Any = BaseExecutionWorkerCommunication._reflect_execution_status

    def start_execution(
        backend: Any,
        state_machine_arn: str,
        name: str | None = None,
        execution_input: Any = None,
        **kwargs: Any,
    ) -> Any:
        with lock:
            return stock_start_execution(
                backend, state_machine_arn, name or str(uuid.uuid4()), execution_input, **kwargs
            )

    def start(execution: Any) -> None:
        execution.exec_worker = execution._get_start_execution_worker()
        execution.exec_status = ExecutionStatus.RUNNING
        on_status_change(execution)
        execution.exec_worker.start()

    def start_worker(worker: Any) -> None:
        # Prepare both before the response: a stop, a describe or a history may come next. (Stock
        # moto prepares them in the thread.)
        worker.program = worker._get_evaluation_entrypoint()
        worker.env = worker._get_evaluation_environment()
        worker.env.next_state_name = worker.program.start_at.start_at_name
        worker._get_evaluation_entrypoint = lambda: worker.program
        worker._get_evaluation_environment = lambda: worker.env
        Thread(target=worker._execution_logic, name="execution", daemon=True).start()

    def stop(execution: Any, stop_date: datetime, error: str | None, cause: str | None) -> None:
        with lock:
            if execution.exec_status != ExecutionStatus.RUNNING:
                return
            execution.exec_status = ExecutionStatus.ABORTED
            execution.stop_date, execution.error, execution.cause = stop_date, error, cause
        execution.exec_worker.stop(stop_date=stop_date, error=error, cause=cause)
        on_status_change(execution)

    def reflect_execution_status(communication: Any) -> None:
        execution = communication.execution
        with lock:
            if execution.exec_status != ExecutionStatus.RUNNING:
                return
            stock_reflect(communication)
        on_status_change(execution)

    def stop_execution(response: Any) -> Any:
        execution = response.stepfunction_backend.describe_execution(
            response._get_param("executionArn")
        )
        execution.stop(
            datetime.now(tz=UTC), response._get_param("error"), response._get_param("cause")
        )
        return ActionResult({"stopDate": execution.stop_date})

    patches.replace(StepFunctionsParserBackend, "start_execution", start_execution)
    patches.replace(Execution, "start", start)
    patches.replace(Execution, "stop", stop)
    patches.replace(ExecutionWorker, "start", start_worker)
    patches.replace(
        BaseExecutionWorkerCommunication, "_reflect_execution_status", reflect_execution_status
    )
    patches.replace(StepFunctionResponse, "stop_execution", stop_execution)


def stop_all_executions() -> None:
    """Stop every execution, so that no thread of one outlives the embedded AWS."""
    for account in stepfunctions_parser_backends.values():
        for backend in account.values():
            for machine in backend.state_machines:
                for execution in machine.executions:
                    execution.stop(datetime.now(tz=UTC), None, "the embedded AWS is stopping")
