from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.parse import asl_parser

from longhaul.local.moto_repairs import sfn as sfn_repairs
from tests.local.support import Moto, branch


def count_parses(moto: Moto) -> list[str]:
    parsed: list[str] = []
    stock_stream = asl_parser.InputStream

    def stream(definition: str) -> Any:
        parsed.append(definition)
        return stock_stream(definition)

    moto.patches.replace(asl_parser, "InputStream", stream)
    return parsed


def test_machine_is_parsed_once_for_all_its_executions(
    moto: Moto, machine: Callable[..., Any], *, repaired: bool
) -> None:
    parsed = count_parses(moto)
    if repaired:
        sfn_repairs.parse_once(moto.patches)
    passing = machine(Pass={"Type": "Pass", "End": True})

    for name in ("a", "b", "c"):
        assert passing.end_of(passing.start(name=name))["status"] == "SUCCEEDED"

    assert (len(parsed) == 1) is repaired


def test_executions_of_one_parsed_machine_count_their_own_retries(
    moto: Moto, machine: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrier_decl, "time", SimpleNamespace(sleep=lambda _seconds: None))
    sfn_repairs.parse_once(moto.patches)
    retry = {
        "ErrorEquals": ["States.ALL"],
        "IntervalSeconds": 1,
        "MaxAttempts": 1,
        "BackoffRate": 1,
    }
    failing = {
        "Type": "Parallel",
        "Branches": [branch(Fails={"Type": "Fail", "Error": "E"})],
        "Retry": [retry],
        "End": True,
    }
    twice = machine(Failing=failing)
    executions = [twice.start(name=name) for name in ("a", "b")]

    assert [twice.end_of(execution)["status"] for execution in executions] == ["FAILED", "FAILED"]

    for execution in executions:
        events = twice.client.get_execution_history(executionArn=execution)["events"]
        assert [event["type"] for event in events].count("ParallelStateStarted") == 2
