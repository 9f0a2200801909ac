"""EventBridge: the rules' schedules, and the events of executions.

Events are best effort: some are lost, late or doubled.
"""

import json
from collections.abc import Callable
from typing import Any

from simulation.aws.platform.invocations import Lambda
from simulation.aws.platform.timeline import Timeline
from simulation.aws.stepfunctions.client import Execution
from simulation.aws.template import Rule
from simulation.worlds.injection import Injector
from simulation.worlds.plan import Plan
from simulation.worlds.randomness import unit

_EVENT_FAULTS = ("lost", "late", "doubled")


class EventBridge:
    def __init__(
        self,
        plan: Plan,
        timeline: Timeline,
        injector: Injector,
        platform: Lambda,
        rules: tuple[Rule, ...],
        label_of: Callable[[str, int | str], str],
    ) -> None:
        self._plan = plan
        self._timeline = timeline
        self._injector = injector
        self._platform = platform
        self._rules = rules
        self._label_of = label_of
        self._ticks = 0
        for rule in rules:
            if rule.every_s is not None:
                self._tick(rule, rule.every_s * unit(plan.seed, "first tick"))

    def execution_changed(self, execution: Execution) -> None:
        for rule in self._rules:
            if execution.status in rule.statuses:
                self._send(rule, execution)

    def _tick(self, rule: Rule, delay_s: float) -> None:
        def tick() -> None:
            self._ticks += 1
            site = f"t{self._ticks}"
            if (
                self._injector.of_event(f"tick:{site}", ("lost",), self._plan.mix.events / 2)
                is None
            ):
                event = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
                self._platform.invoke_async(rule.function, event, site, rule.max_age_s)
            self._tick(rule, float(rule.every_s or 0))

        self._timeline.after(delay_s, tick)

    def _send(self, rule: Rule, execution: Execution) -> None:
        detail: dict[str, Any] = {
            "executionArn": execution.arn,
            "stateMachineArn": execution.machine_arn,
            "name": execution.name,
            "status": execution.status,
            "input": execution.input,
            "output": None,
            "error": execution.error,
            "cause": execution.cause,
        }
        event = {
            "source": "aws.states",
            "detail-type": "Step Functions Execution Status Change",
            "detail": detail,
        }
        told = json.loads(execution.input)
        site = self._label_of(told["key"], told["attempt"])
        fault = self._injector.of_event(f"event:{site}", _EVENT_FAULTS, self._plan.mix.events)
        delays = {None: (1.0,), "lost": (), "late": (1800.0,), "doubled": (1.0, 4.0)}[fault]
        for delay_s in delays:
            self._timeline.after(
                delay_s,
                lambda: self._platform.invoke_async(rule.function, event, site, rule.max_age_s),
            )
