"""EventBridge on this machine: rules for schedules, ends of executions, and created objects.

moto matches a rule's pattern. A rule's schedule may be a rate, and its targets may be functions and
queues, with an input transformer. The deployment of any other rule fails: otherwise the rule would
silently never fire.
"""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

import heapq
import json
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

from moto.awslambda.models import lambda_backends
from moto.events.models import EventPattern, events_backends
from moto.sqs.models import sqs_backends

from longhaul.local.firing import SECONDS
from longhaul.local.lambda_driver import Invoker

_VARIABLE = re.compile(r"<([\w-]+)>")

Allows = Callable[[str, str, str], bool]
"""Whether EventBridge may do something for a rule: an action, a resource's ARN, the rule's."""


def allow_all(action: str, resource: str, rule: str) -> bool:
    """Where roles are not enforced."""
    del action, resource, rule
    return True


@dataclass(frozen=True)
class Target:
    arn: str
    constant: str | None
    transformer: dict[str, Any] | None
    # The queue that takes what the target does not.
    dead_letters: str | None = None

    def input_of(self, event: dict[str, Any]) -> str:
        if self.transformer is not None:
            return transformed(self.transformer, event)
        return self.constant or json.dumps(event)


@dataclass(frozen=True)
class Rule:
    arn: str
    pattern: EventPattern | None
    period_s: int | None
    targets: tuple[Target, ...]


class EventDriver:
    def __init__(
        self, *, account: str, region: str, invoker: Invoker, allows: Allows = allow_all
    ) -> None:
        self._account = account
        self._allows = allows
        self._region = region
        self._invoker = invoker
        self._rules: list[Rule] = []
        self._closing = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start to drive the rules that are deployed now.

        Raises:
            NotImplementedError: a rule uses a feature that is not driven here.
        """
        bus = events_backends[self._account][self._region].describe_event_bus("default")
        self._rules = [_rule_of(rule) for rule in bus.rules.values() if rule.state == "ENABLED"]
        if any(rule.period_s for rule in self._rules):
            self._thread = Thread(target=self._keep_schedules, name="event-schedules", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def execution_status_changed(self, execution: Any) -> None:
        """Publish "Step Functions Execution Status Change" for an execution of moto's."""
        status = execution.status
        self.publish(
            "aws.states",
            "Step Functions Execution Status Change",
            {
                "executionArn": execution.exec_arn,
                "stateMachineArn": execution.state_machine_arn,
                "name": execution.name,
                "status": status,
                "startDate": _epoch_ms(execution.start_date),
                "stopDate": _epoch_ms(execution.stop_date),
                "input": execution.execution_input,
                "output": json.dumps(execution.output) if status == "SUCCEEDED" else None,
                "inputDetails": {"included": True},
                "outputDetails": {"included": True} if status == "SUCCEEDED" else None,
                "error": execution.error,
                "cause": execution.cause,
            },
            resources=[execution.exec_arn],
        )

    def publish(
        self, source: str, detail_type: str, detail: dict[str, Any], *, resources: list[str]
    ) -> None:
        """Send an event to the targets of every rule that it matches."""
        event: Any = self._event(source, detail_type, detail, resources)
        for rule in self._rules:
            if rule.pattern is not None and rule.pattern.matches_event(event):
                self._send(rule, event)

    def _keep_schedules(self) -> None:
        due = [
            (time.monotonic() + rule.period_s, index)
            for index, rule in enumerate(self._rules)
            if rule.period_s
        ]
        heapq.heapify(due)
        while not self._closing.wait(max(0.0, due[0][0] - time.monotonic())):
            at, index = due[0]
            rule = self._rules[index]
            self._send(rule, self._event("aws.events", "Scheduled Event", {}, [rule.arn]))
            heapq.heapreplace(due, (at + (rule.period_s or 0), index))

    def _send(self, rule: Rule, event: dict[str, Any]) -> None:
        for target in rule.targets:
            is_queue = ":sqs:" in target.arn
            action = "sqs:SendMessage" if is_queue else "lambda:InvokeFunction"
            if not self._allows(action, target.arn, rule.arn):
                self._send_to_dead_letters(rule, target, event)
            elif is_queue:
                self._queues.send_message(_name_in(target.arn), target.input_of(event))
            else:
                function = lambda_backends[self._account][self._region].get_function(target.arn)
                self._invoker.invoke_later(function, target.input_of(event).encode())

    def _send_to_dead_letters(self, rule: Rule, target: Target, event: dict[str, Any]) -> None:
        """What a target may not get is not tried again.

        https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-dlq.html
        """
        letters = target.dead_letters
        if letters is None or not self._allows("sqs:SendMessage", letters, rule.arn):
            return
        texts = {"RULE_ARN": rule.arn, "TARGET_ARN": target.arn, "ERROR_CODE": "NO_PERMISSIONS"}
        attributes = {
            name: {"DataType": "String", "StringValue": text} for name, text in texts.items()
        }
        self._queues.send_message(_name_in(letters), json.dumps(event), attributes)

    @property
    def _queues(self) -> Any:
        return sqs_backends[self._account][self._region]

    def _event(
        self, source: str, detail_type: str, detail: dict[str, Any], resources: list[str]
    ) -> dict[str, Any]:
        return {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": detail_type,
            "source": source,
            "account": self._account,
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": self._region,
            "resources": resources,
            "detail": detail,
        }


def _name_in(queue: str) -> str:
    return queue.rpartition(":")[2]


def transformed(transformer: dict[str, Any], event: dict[str, Any]) -> str:
    """The template with its variables, as AWS writes them where JSON has values.

    AWS does not say that it escapes texts, so none is escaped here.
    """
    values = {}
    for name, path in transformer["InputPathsMap"].items():
        value: Any = event
        for step in path.removeprefix("$.").split("."):
            value = value[step]
        values[name] = f'"{value}"' if isinstance(value, str) else json.dumps(value)
    template: str = transformer["InputTemplate"]
    return _VARIABLE.sub(lambda match: values[match[1]], template)


def _rule_of(rule: Any) -> Rule:
    pattern = rule.event_pattern if rule.event_pattern.dump() else None
    targets = []
    for target in rule.targets:
        transformer = target.get("InputTransformer")
        if target["Arn"].split(":")[2] not in ("lambda", "sqs") or target.get("InputPath"):
            raise NotImplementedError(
                f"rule {rule.name}: the embedded AWS sends whole events, transformed ones or a "
                "constant Input, to functions and queues only"
            )
        texts = (
            re.findall(r'"(?:[^"\\]|\\.)*"', transformer["InputTemplate"]) if transformer else ()
        )
        if any(map(_VARIABLE.search, texts)):
            raise NotImplementedError(
                f"rule {rule.name}: a variable within a text, which AWS does not escape"
            )
        letters = target.get("DeadLetterConfig", {}).get("Arn")
        targets.append(Target(target["Arn"], target.get("Input"), transformer, letters))
    return Rule(rule.arn, pattern, _period_s(rule.scheduled_expression, rule.name), tuple(targets))


def _period_s(expression: str | None, rule_name: str) -> int | None:
    if not expression:
        return None
    match = re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", expression)
    if match is None:
        raise NotImplementedError(
            f"rule {rule_name}: the embedded AWS drives rate(…) schedules only, not {expression!r}"
        )
    return int(match[1]) * SECONDS[match[2]]


def _epoch_ms(at: datetime | None) -> int | None:
    return int(at.timestamp() * 1000) if at is not None else None
