"""Bugs of the fence: which attempt may write, and how many run."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_LEASES: Final = "longhaul/core/store/leases.py"
_TRANSITIONS: Final = "longhaul/core/transitions.py"
_SLOTS: Final = "longhaul/core/store/slots.py"
_STARTING: Final = "longhaul/core/slots.py"

FENCE: Final = (
    Mutant(
        "an older attempt writes to the row",
        _LEASES,
        'Clause.MINE: "run = :run AND attempt = :attempt"',
        'Clause.MINE: "run = :run AND attempt >= :attempt"',
    ),
    Mutant(
        "two tasks work on one attempt",
        _LEASES,
        "OR task_arn = :task_arn)",
        "OR task_arn <= :task_arn OR task_arn > :task_arn)",
    ),
    Mutant(
        "a failure overrules a commit",
        _TRANSITIONS,
        "    if before.attempt.output is None:\n        requires[Clause.UNCOMMITTED] = None\n",
        "",
    ),
    Mutant(
        "a commit succeeds after the cancel mark",
        _TRANSITIONS,
        "also={Clause.UNCOMMITTED: None, Clause.NOT_CANCELLED: None}",
        "also={}",
    ),
    Mutant(
        "the execution name lacks the attempt",
        "longhaul/core/lease.py",
        "        return self.token\n",
        '        return f"{self.key_hash}-{self.run}"\n',
    ),
    Mutant(
        "the probe sends another input than the row's",
        _STARTING,
        "closed_as = self.context.executions.ensure_started(lease.id.execution_name, lease.execution_input)\n        row =",
        'closed_as = self.context.executions.ensure_started(lease.id.execution_name, lease.execution_input + " ") or "ABORTED"\n        row =',
    ),
    Mutant(
        "a settled attempt keeps its slot",
        _SLOTS,
        "self._change(stage, -1)",
        "self._change(stage, 0)",
    ),
    Mutant(
        "a claim takes no slot",
        _SLOTS,
        "self._change(stage.name, +1)",
        "self._change(stage.name, 0)",
    ),
    Mutant(
        "a claim does not look at the pause",
        _SLOTS,
        'NOT_PAUSED = "attribute_not_exists(paused_at)"',
        'NOT_PAUSED = "attribute_not_exists(paused)"',
    ),
)
