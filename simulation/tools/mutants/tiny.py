"""Bugs of jobs that run in a Lambda function."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_LAMBDA: Final = "longhaul/engines/aws_lambda/ends.py"
_SETTLEMENT: Final = "longhaul/domain/settlement.py"

TINY: Final = (
    Mutant(
        "both runs of a doubled invocation have one name",
        _LAMBDA,
        "/until/{round(until.timestamp() * 1000)}",
        "/until/{round(until.timestamp() / 1000) * 1_000_000}",
    ),
    Mutant(
        "a tiny job that is out of memory stays tiny",
        _SETTLEMENT,
        "larger = sizes[max(place, min(place + 1, sizes.index(largest)))]",
        "larger = sizes[max(place, min(place + (1 if place else 0), sizes.index(largest)))]",
    ),
    Mutant(
        "a killed environment is no sign of too little memory",
        _LAMBDA,
        '_KILLED = "signal: killed"',
        '_KILLED = "signal: terminated"',
    ),
    Mutant(
        "a throttle of Lambda counts as an interruption",
        _LAMBDA,
        'errors=("Lambda.",)',
        'errors=("Lambda.Resource",)',
    ),
    Mutant(
        "the next attempt does not wait for an invocation that goes on",
        _SETTLEMENT,
        "if verdict.gone_by:",
        "if verdict.gone_by and row.stage == '':",
    ),
    Mutant(
        "an invocation is called gone while it may run",
        "longhaul/engines/aws_lambda/tasks.py",
        "is_gone=self._aws_time() >= gone_by",
        "is_gone=True",
    ),
    Mutant(
        "an invocation counts as ended, whatever Step Functions saw",
        "longhaul/domain/classify.py",
        "is_over=registered is not None and engine_of(registered).is_over(registered, task)",
        "is_over=registered is not None",
    ),
    Mutant(
        "a job that asks for more time than Lambda has runs there",
        "longhaul/domain/claim.py",
        'return "small", timeout_s',
        "return size, timeout_s",
    ),
    Mutant(
        "a runner that never ends keeps its invocation",
        "longhaul/engines/aws_lambda/runner.py",
        "process.wait(max(0.0, limit_s))",
        "process.wait(max(9_999.0, limit_s))",
    ),
)
