"""An execution needs few threads, and leaves none on record.

AWS: executions cost nothing on this machine.

Stock moto: each program (the machine, each branch) runs in a thread of its own although its caller only waits for it, and every thread that ever ran a state
is kept in a list; a program that was stopped before it began dies of it. Here a program without a timeout runs where it is called, also when there is nothing
left to run, and the list is cleared when an execution ends.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

from typing import Any

from moto.stepfunctions.parser.asl.component.program.program import Program
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker
from moto.stepfunctions.parser.utils import TMP_THREADS

from local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    stock_eval = Program.eval
    stock_logic: Any = ExecutionWorker._execution_logic

    def eval_here(program: Any, env: Any) -> None:
        if program.timeout_seconds is not None:
            stock_eval(program, env)
            return
        with env._state_mutex:
            # Stopped before it began, it has no first state; the body then only writes the closing event.
            if env._program_state is None or env.is_running():
                env.next_state_name = program.start_at.start_at_name
        program._eval_body(env)

    def execution_logic(worker: Any) -> None:
        stock_logic(worker)
        TMP_THREADS.clear()

    patches.replace(Program, "eval", eval_here)
    patches.replace(ExecutionWorker, "_execution_logic", execution_logic)
