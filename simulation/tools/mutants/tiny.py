"""Bugs of jobs that run in a Lambda function."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_LAMBDA: Final = "longhaul/engines/aws_lambda/ends.py"

TINY: Final = (
    Mutant(
        "both runs of a doubled invocation have one name",
        _LAMBDA,
        "/until/{round(until.timestamp() * 1000)}",
        "/until/{round(until.timestamp() / 1000) * 1_000_000}",
    ),
    Mutant(
        "an invocation is called gone while it may run",
        "longhaul/engines/aws_lambda/tasks.py",
        "is_gone=self._aws_time() >= gone_by",
        "is_gone=True",
    ),
)
