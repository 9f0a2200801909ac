"""A stop takes effect at once, and is final.

AWS: when an execution is stopped, or a branch of a Parallel state fails, waits and retry pauses
end. The status does not change afterwards.

Stock moto: signals the end of an environment by a pulse (`Event.set`, then `clear`), so a state
that starts to wait at that moment waits its full time. The pause before a retry is a plain sleep.
A state that unwinds after a stop turns the execution from ABORTED into FAILED.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

from collections.abc import Callable
from threading import Event
from typing import Any

from moto.stepfunctions.parser.asl.component.common.retry.jitter_strategy_decl import (
    JitterStrategyDecl,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment

from longhaul.local.moto_repairs.patching import Patches


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


def apply(patches: Patches) -> None:
    stock_init = Environment.__init__
    stock_set_error = Environment.set_error
    stock_jitter = JitterStrategyDecl._eval_body

    def init(env: Any, *args: Any, **kwargs: Any) -> None:
        stock_init(env, *args, **kwargs)
        env.program_state_event = Latch()

    def set_error(env: Any, error: Any) -> None:
        with env._state_mutex:
            # In the state `None` the environment has not started yet, and may still fail.
            if env._program_state is None or env.is_running():
                stock_set_error(env, error)

    def pause_before_retry(jitter: Any, env: Any) -> None:
        # This is the last step before stock moto sleeps for the pause on the stack. Wait here
        # instead, where a stop ends the wait, and leave a pause of zero.
        stock_jitter(jitter, env)
        env.program_state_event.wait(env.stack.pop())
        env.stack.append(0)

    patches.replace(Environment, "__init__", init)
    patches.replace(Environment, "set_error", set_error)
    patches.replace(JitterStrategyDecl, "_eval_body", pause_before_retry)
