"""EventBridge on this machine: rules send events to functions and queues.

moto matches a rule's pattern. The deployment of a rule with another target fails: otherwise it
would silently send nothing. `schedule_driver` fires the rules that have a schedule.
"""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

import json
import re
import uuid
from datetime import UTC, datetime
from typing import Any, Final

from moto.awslambda.models import lambda_backends
from moto.events.models import events_backends
from moto.sqs.models import sqs_backends

from longhaul.local.credentials import Allows, allow_all
from longhaul.local.lambda_driver import LambdaDriver

_VARIABLE = re.compile(r"<([\w-]+)>")
_ACTIONS: Final = {"lambda": "lambda:InvokeFunction", "sqs": "sqs:SendMessage"}


class EventDriver:
    def __init__(
        self, *, account: str, region: str, invoker: LambdaDriver, allows: Allows = allow_all
    ) -> None:
        self._account = account
        self._allows = allows
        self._region = region
        self._invoker = invoker

    def check(self) -> None:
        """Look at the rules that are deployed now.

        Raises:
            NotImplementedError: a rule uses a feature that is not driven here.
        """
        for rule in self._backend.describe_event_bus("default").rules.values():
            for target in rule.targets:
                _check(rule.name, target)

    def execution_status_changed(self, execution: Any) -> None:
        """Publish "Step Functions Execution Status Change" for an execution of moto's."""
        status = execution.status
        detail = {
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
        }
        event = {
            "Source": "aws.states",
            "DetailType": "Step Functions Execution Status Change",
            "Detail": json.dumps(detail),
            "Resources": [execution.exec_arn],
        }
        self._backend.put_events([event])

    def fire(self, rule: Any, at: datetime) -> None:
        """Send the event of a rule's schedule."""
        event = {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": "Scheduled Event",
            "source": "aws.events",
            "account": self._account,
            "time": at.timestamp(),
            "region": self._region,
            "resources": [rule.arn],
            "detail": {},
        }
        self.send(rule, event)

    def send(self, rule: Any, event: dict[str, Any]) -> None:
        """Send an event, as moto has it, to the targets of a rule."""
        at = datetime.fromtimestamp(event["time"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        written = {name: event[name] for name in event if name != "ingestion-time"} | {"time": at}
        for target in rule.targets:
            arn = target["Arn"]
            service = arn.split(":")[2]
            if not self._allows(_ACTIONS[service], arn, rule.arn):
                self._send_to_dead_letters(rule, target, written)
            elif service == "sqs":
                self._queues.send_message(_name_in(arn), _input_of(target, written))
            else:
                function = lambda_backends[self._account][self._region].get_function(arn)
                self._invoker.invoke_later(function, _input_of(target, written).encode())

    def _send_to_dead_letters(
        self, rule: Any, target: dict[str, Any], event: dict[str, Any]
    ) -> None:
        """What a target may not get is not tried again.

        https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-dlq.html
        """
        letters = target.get("DeadLetterConfig", {}).get("Arn")
        if letters is None or not self._allows("sqs:SendMessage", letters, rule.arn):
            return
        texts = {
            "RULE_ARN": rule.arn,
            "TARGET_ARN": target["Arn"],
            "ERROR_CODE": "NO_PERMISSIONS",
        }
        attributes = {
            name: {"DataType": "String", "StringValue": text} for name, text in texts.items()
        }
        self._queues.send_message(_name_in(letters), json.dumps(event), attributes)

    @property
    def _queues(self) -> Any:
        return sqs_backends[self._account][self._region]

    @property
    def _backend(self) -> Any:
        return events_backends[self._account][self._region]


def _name_in(queue: str) -> str:
    return queue.rpartition(":")[2]


def _input_of(target: dict[str, Any], event: dict[str, Any]) -> str:
    if "InputTransformer" in target:
        return transformed(target["InputTransformer"], event)
    return str(target.get("Input") or json.dumps(event))


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


def _check(name: str, target: dict[str, Any]) -> None:
    if target["Arn"].split(":")[2] not in _ACTIONS or target.get("InputPath"):
        raise NotImplementedError(
            f"rule {name}: the embedded AWS sends whole events, transformed ones or a "
            "constant Input, to functions and queues only"
        )
    template = target.get("InputTransformer", {}).get("InputTemplate", "")
    if any(map(_VARIABLE.search, re.findall(r'"(?:[^"\\]|\\.)*"', template))):
        raise NotImplementedError(
            f"rule {name}: a variable within a text, which AWS does not escape"
        )


def _epoch_ms(at: datetime | None) -> int | None:
    return int(at.timestamp() * 1000) if at is not None else None
