"""An execution takes few threads, and keeps none after its end.

AWS: executions take no threads on this machine.

Stock moto: runs each program (the machine, each branch) in a thread of its own, while its caller
only waits. Every thread that ever ran a state stays in a list. A program that is stopped before it
starts fails.

Here a program without a timeout runs in its caller's thread, and the list is cleared at the end of
each execution.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

from typing import Any

from moto.stepfunctions.parser.asl.component.program.program import Program
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker
from moto.stepfunctions.parser.utils import TMP_THREADS

from longhaul.local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    stock_eval = Program.eval
    stock_logic: Any = ExecutionWorker._execution_logic

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

    def execution_logic(worker: Any) -> None:
        stock_logic(worker)
        TMP_THREADS.clear()

    patches.replace(Program, "eval", eval_here)
    patches.replace(ExecutionWorker, "_execution_logic", execution_logic)
