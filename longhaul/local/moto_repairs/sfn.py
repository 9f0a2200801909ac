"""Repairs of Step Functions."""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from threading import Event, RLock, Thread
from typing import Any

import botocore.session
from botocore import xform_name
from botocore.config import Config
from botocore.model import OperationModel, ServiceModel
from moto.cloudformation.exceptions import ValidationError
from moto.core.config import default_user_config
from moto.core.responses import ActionResult
from moto.stepfunctions import models
from moto.stepfunctions.parser.api import ExecutionStatus
from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import (
    CustomErrorName,
)
from moto.stepfunctions.parser.asl.component.common.error_name.error_equals_decl import (
    ErrorEqualsDecl,
)
from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import (
    StatesErrorName,
)
from moto.stepfunctions.parser.asl.component.common.retry.jitter_strategy_decl import (
    JitterStrategyDecl,
)
from moto.stepfunctions.parser.asl.component.eval_component import EvalComponent
from moto.stepfunctions.parser.asl.component.program.program import Program
from moto.stepfunctions.parser.asl.component.state.exec.state_parallel import branches_decl
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser
from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication, Execution
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker
from moto.stepfunctions.parser.models import (
    StepFunctionsParserBackend,
    stepfunctions_parser_backends,
)
from moto.stepfunctions.parser.utils import TMP_THREADS
from moto.stepfunctions.responses import StepFunctionResponse
from moto.stepfunctions.utils import cfn_to_api_tags

from longhaul.local.credentials import ADMINISTRATOR, Credentials, aws_client
from longhaul.local.moto_repairs.patching import Patches


def clients(
    patches: Patches, endpoint: str, lend: Callable[[str], Credentials]
) -> Callable[[str, str, Any], Any]:
    """The interpreter makes one client per service.

    AWS: a task state calls its service.

    Stock moto: each evaluation of a task state makes a new boto3 client (tens of milliseconds of
    CPU), always to `localhost` on the port of an environment variable. Here there is one client per
    service and role of a state machine, to the real endpoint, with enough connections for many
    executions.

    Args:
        patches: takes the replaced attributes.
        endpoint: of the embedded AWS.
        lend: returns credentials of a role, by its ARN.

    Returns:
        a client, by region, service and the credentials of a state.
    """
    # The read timeout exceeds Lambda's longest run. The client does not retry: the state has a
    # Retry of its own.
    config = Config(
        parameter_validation=False,
        retries={"total_max_attempts": 1},
        connect_timeout=10,
        read_timeout=1000,
        max_pool_connections=256,
    )

    @lru_cache
    def client(service: str, region: str, role: str | None) -> Any:
        lent = lend(role) if role else ADMINISTRATOR
        return aws_client(
            service, endpoint=endpoint, region=region, credentials=lent, config=config
        )

    @patches.replacing(lambda_eval_utils, "boto_client_for")
    def boto_client_for(region: str, service: str, state_credentials: Any = None) -> Any:
        role = state_credentials.role_arn if state_credentials else None
        return client(service, region, role)

    return boto_client_for


NEVER_CAUGHT_BY_ALL = {"States.Runtime", "States.DataLimitExceeded"}


def errors(patches: Patches) -> None:
    """Errors keep their names, and match the Catch and Retry that AWS matches.

    AWS: an error in a branch of a Parallel state fails that state under the error's own name,
    `States.*` included, and the state's Catch and Retry see it. `States.ALL` matches neither
    `States.Runtime` nor `States.DataLimitExceeded`. `States.TaskFailed` matches everything but
    these two and `States.Timeout`.

    Stock moto: a `States.*` error in a branch ends the execution with `States.Runtime` ("must not
    begin with States."), and `States.ALL` matches every error.
    """
    patches.replace(branches_decl, "CustomErrorName", error_of_branch)
    patches.replace(ErrorEqualsDecl, "_eval_body", _matches)


def error_of_branch(error_name: str | None) -> Any:
    """The error of a Parallel state whose branch failed with this error."""
    if error_name is None or not error_name.startswith("States."):
        return CustomErrorName(error_name)
    try:
        return StatesErrorName.from_name(error_name)
    except ValueError:  # a `States.*` name that moto's grammar does not list
        return _OtherStatesError(error_name)


class _OtherStatesError(ErrorName):
    pass


def _matches(declaration: Any, env: Any) -> None:
    raised = env.stack.pop().error_name
    declared = {name.error_name for name in declaration.error_names}
    env.stack.append(
        raised in declared
        or ("States.ALL" in declared and raised not in NEVER_CAUGHT_BY_ALL)
        or (
            "States.TaskFailed" in declared
            and raised not in NEVER_CAUGHT_BY_ALL | {"States.Timeout"}
        )
    )


class Latch(Event):
    """An event that stays set, and has callbacks. It makes moto's `set(); clear()` final."""

    def __init__(self) -> None:
        super().__init__()
        self._callbacks: list[Callable[[], None]] = []

    def clear(self) -> None:
        """Do nothing: the end of an environment is final."""

    def set(self) -> None:
        super().set()
        for callback in list(self._callbacks):
            callback()

    def on_set(self, callback: Callable[[], None]) -> None:
        """Call back when set; at once if it is set already.

        The callback may come twice.
        """
        self._callbacks.append(callback)
        if self.is_set():
            callback()


def interrupts(patches: Patches) -> None:
    """A stop takes effect at once, and is final.

    AWS: when an execution is stopped, or a branch of a Parallel state fails, waits and retry pauses
    end. The status does not change afterwards.

    Stock moto: signals the end of an environment by a pulse (`Event.set`, then `clear`), so a state
    that starts to wait at that moment waits its full time. The pause before a retry is a plain
    sleep. A state that unwinds after a stop turns the execution from ABORTED into FAILED.
    """
    stock_init = Environment.__init__
    stock_set_error = Environment.set_error
    stock_jitter = JitterStrategyDecl._eval_body

    @patches.replacing(Environment, "__init__")
    def init(env: Any, *args: Any, **kwargs: Any) -> None:
        stock_init(env, *args, **kwargs)
        env.program_state_event = Latch()

    @patches.replacing(Environment, "set_error")
    def set_error(env: Any, error: Any) -> None:
        with env._state_mutex:
            # In the state `None` the environment has not started yet, and may still fail.
            if env._program_state is None or env.is_running():
                stock_set_error(env, error)

    @patches.replacing(JitterStrategyDecl, "_eval_body")
    def pause_before_retry(jitter: Any, env: Any) -> None:
        # This is the last step before stock moto sleeps for the pause on the stack. Wait here
        # instead, where a stop ends the wait, and leave a pause of zero.
        stock_jitter(jitter, env)
        env.program_state_event.wait(env.stack.pop())
        env.stack.append(0)


StateTaskService = state_task_service.StateTaskService


def parameters(patches: Patches) -> None:
    """Parameters of a task state reach the service under the service's own names.

    AWS: translates `TaskDefinition`, `Overrides.ContainerOverrides`, … of an optimized integration
    to the API's `taskDefinition`, `overrides.containerOverrides`, … Responses come back in Step
    Functions' spelling.

    Stock moto: translates nothing, because both hooks are empty, so `ecs:runTask` fails on its
    parameter names. The translation used here is moto's own, which moto never calls.
    """

    @patches.replacing(StateTaskService, "_normalise_parameters")
    def normalise_parameters(state: Any, parameters: Any, **of: str | None) -> None:
        shape = _operation_of(state, **of).input_shape
        if shape is not None:
            state._to_boto_request(parameters, shape)

    @patches.replacing(StateTaskService, "_normalise_response")
    def normalise_response(state: Any, response: Any, **of: str | None) -> None:
        shape = _operation_of(state, **of).output_shape
        if shape is not None:
            state._from_boto_response(response, shape)


def _operation_of(
    state: Any, boto_service_name: str | None = None, service_action_name: str | None = None
) -> OperationModel:
    return _operation(
        state._get_boto_service_name(boto_service_name),
        state._get_boto_service_action(service_action_name),
    )


@lru_cache
def _operation(service: str, action: str) -> OperationModel:
    """Botocore's model of an operation, whose name is in snake case.

    Raises:
        KeyError: the service has no such operation.
    """
    model = _service(service)
    return model.operation_model({xform_name(name): name for name in model.operation_names}[action])


@lru_cache
def _service(name: str) -> ServiceModel:
    return botocore.session.get_session().get_service_model(name)


def parse_once(patches: Patches) -> None:
    """A definition is parsed once.

    AWS: the cost of starting an execution does not depend on the size of its machine.

    Stock moto: parses the definition at each StartExecution, in pure Python. For a large machine
    that takes a good part of a second, so a burst of executions is slow.

    A parsed program can be shared: it holds no state of an execution, except the key under which
    retriers count in the execution's heap. Stock moto makes that key on first use, and two threads
    could make two. Here the key is the component's identity. Machines with a Map state are parsed
    each time, because a Map's components hold state.
    """
    stock_parse = AmazonStateLanguageParser.parse
    parse_once = lru_cache(maxsize=64)(stock_parse)

    def parse(definition: str) -> Any:
        return stock_parse(definition) if '"Map"' in definition else parse_once(definition)

    patches.replace(AmazonStateLanguageParser, "parse", staticmethod(parse))
    patches.replace(EvalComponent, "heap_key", property(lambda component: str(id(component))))


def start_stop(
    patches: Patches, on_status_change: Callable[[Any], None] = lambda _execution: None
) -> None:
    """StartExecution is idempotent, and StopExecution takes effect at once.

    AWS: two starts with the same name and input are one execution, however close in time.
    StopExecution takes effect at once, even just after the start, and records error and cause. An
    execution that has ended does not change.

    Stock moto: two starts at the same moment make two executions. A stop just after the start fails
    or is lost, and a describe at that moment fails. A stop shows only after the running task has
    ended, which may take minutes, and its error and cause are dropped.

    A stop before the first state also needs `threads`, and one during a wait `interrupts`. Status
    changes happen here, so their callback for EventBridge is here too.
    """
    lock = RLock()
    stock_start_execution = StepFunctionsParserBackend.start_execution
    stock_reflect: Any = BaseExecutionWorkerCommunication._reflect_execution_status

    @patches.replacing(StepFunctionsParserBackend, "start_execution")
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

    @patches.replacing(Execution, "start")
    def start(execution: Any) -> None:
        execution.exec_worker = execution._get_start_execution_worker()
        execution.exec_status = ExecutionStatus.RUNNING
        on_status_change(execution)
        execution.exec_worker.start()

    @patches.replacing(ExecutionWorker, "start")
    def start_worker(worker: Any) -> None:
        # Prepare both before the response: a stop, a describe or a history may come next. (Stock
        # moto prepares them in the thread.)
        worker.program = worker._get_evaluation_entrypoint()
        worker.env = worker._get_evaluation_environment()
        worker.env.next_state_name = worker.program.start_at.start_at_name
        worker._get_evaluation_entrypoint = lambda: worker.program
        worker._get_evaluation_environment = lambda: worker.env
        Thread(target=worker._execution_logic, name="execution", daemon=True).start()

    @patches.replacing(Execution, "stop")
    def stop(execution: Any, stop_date: datetime, error: str | None, cause: str | None) -> None:
        with lock:
            if execution.exec_status != ExecutionStatus.RUNNING:
                return
            execution.exec_status = ExecutionStatus.ABORTED
            execution.stop_date, execution.error, execution.cause = stop_date, error, cause
        execution.exec_worker.stop(stop_date=stop_date, error=error, cause=cause)
        on_status_change(execution)

    @patches.replacing(BaseExecutionWorkerCommunication, "_reflect_execution_status")
    def reflect_execution_status(communication: Any) -> None:
        execution = communication.execution
        with lock:
            if execution.exec_status != ExecutionStatus.RUNNING:
                return
            stock_reflect(communication)
        on_status_change(execution)

    @patches.replacing(StepFunctionResponse, "stop_execution")
    def stop_execution(response: Any) -> Any:
        execution = response.stepfunction_backend.describe_execution(
            response._get_param("executionArn")
        )
        execution.stop(
            datetime.now(tz=UTC), response._get_param("error"), response._get_param("cause")
        )
        return ActionResult({"stopDate": execution.stop_date})


def stop_all_executions() -> None:
    """Stop every execution, so that no thread of one outlives the embedded AWS."""
    for account in stepfunctions_parser_backends.values():
        for backend in account.values():
            for machine in backend.state_machines:
                for execution in machine.executions:
                    execution.stop(datetime.now(tz=UTC), None, "the embedded AWS is stopping")


def templates(patches: Patches) -> None:
    """State machines of a template can be executed.

    AWS: a state machine made by CloudFormation can be executed.

    Stock moto: CloudFormation makes it in a backend that executes nothing. StartExecution goes to
    the interpreter and does not find it. `StateMachineType` is ignored.
    """
    patches.replace(models, "stepfunctions_backends", stepfunctions_parser_backends)
    patches.replace(models.StateMachine, "create_from_cloudformation_json", classmethod(_create))
    # moto's own switch for the interpreter.
    patches.replace_item(default_user_config, "stepfunctions", {"execute_state_machine": True})


def _create(
    _cls: Any,
    /,
    resource_name: str,
    cloudformation_json: Any,
    account_id: str,
    region_name: str,
    **_kwargs: Any,
) -> Any:
    properties = cloudformation_json["Properties"]
    if "DefinitionString" not in properties or "DefinitionSubstitutions" in properties:
        raise ValidationError(
            message="a state machine of the template needs a DefinitionString without substitutions"
        )
    return stepfunctions_parser_backends[account_id][region_name].create_state_machine(
        properties.get("StateMachineName", resource_name),
        str(properties["DefinitionString"]),
        properties["RoleArn"],
        tags=cfn_to_api_tags(properties.get("Tags", [])),
        sm_type=properties.get("StateMachineType"),
    )


def threads(patches: Patches) -> None:
    """An execution takes few threads, and keeps none after its end.

    AWS: executions take no threads on this machine.

    Stock moto: runs each program (the machine, each branch) in a thread of its own, while its
    caller only waits. Every thread that ever ran a state stays in a list. A program that is stopped
    before it starts fails.

    Here a program without a timeout runs in its caller's thread, and the list is cleared at the end
    of each execution.
    """
    stock_eval = Program.eval
    stock_logic: Any = ExecutionWorker._execution_logic

    @patches.replacing(Program, "eval")
    def eval_here(program: Any, env: Any) -> None:
        if program.timeout_seconds is not None:
            stock_eval(program, env)
            return
        with env._state_mutex:
            # A program that was stopped before its start has no first state. Its body then only
            # writes the closing event.
            if env._program_state is None or env.is_running():
                env.next_state_name = program.start_at.start_at_name
        program._eval_body(env)

    @patches.replacing(ExecutionWorker, "_execution_logic")
    def execution_logic(worker: Any) -> None:
        stock_logic(worker)
        TMP_THREADS.clear()
