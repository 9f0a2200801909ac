"""StartExecution and StopExecution keep their word.

AWS: two starts with one name and one input are one execution, at any distance in time; StopExecution takes effect at once, also for one that was just
started, and records the given error and cause; an execution that ended does not change.

Stock moto: two starts at the same moment make two executions; a stop in the first instant fails or is lost; a stop becomes visible only when the task that
runs has ended (a Lambda may take minutes), and error and cause are dropped; a describe in the first instant fails.

A stop before the first state needs `sfn_threads` too, and one while a state waits `sfn_interrupts`.

Whoever wants to know about status changes (EventBridge does) is told here, because this is where they happen.
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
from moto.stepfunctions.parser.models import StepFunctionsParserBackend, stepfunctions_parser_backends
from moto.stepfunctions.responses import StepFunctionResponse

from local.moto_repairs.patching import Patches


def apply(patches: Patches, on_status_change: Callable[[Any], None] = lambda _execution: None) -> None:
    lock = RLock()
    stock_start_execution = StepFunctionsParserBackend.start_execution
    stock_reflect: Any = BaseExecutionWorkerCommunication._reflect_execution_status

    def start_execution(
        backend: Any, state_machine_arn: str, name: str | None = None, execution_input: Any = None, **kwargs: Any
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
        # Ready before the answer: a stop, a describe or a history may come next. (Stock prepares both in the thread.)
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
        execution = response.stepfunction_backend.describe_execution(response._get_param("executionArn"))
        execution.stop(datetime.now(tz=UTC), response._get_param("error"), response._get_param("cause"))
        return ActionResult({"stopDate": execution.stop_date})

    patches.replace(StepFunctionsParserBackend, "start_execution", start_execution)
    patches.replace(Execution, "start", start)
    patches.replace(Execution, "stop", stop)
    patches.replace(ExecutionWorker, "start", start_worker)
    patches.replace(BaseExecutionWorkerCommunication, "_reflect_execution_status", reflect_execution_status)
    patches.replace(StepFunctionResponse, "stop_execution", stop_execution)


def stop_all_executions() -> None:
    """End what still runs, so that no thread of an execution outlives the embedded AWS."""
    for account in stepfunctions_parser_backends.values():
        for backend in account.values():
            for machine in backend.state_machines:
                for execution in machine.executions:
                    execution.stop(datetime.now(tz=UTC), None, "the embedded AWS is stopping")
