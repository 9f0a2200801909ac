"""Bugs about trees that are run again."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_RERUN: Final = "longhaul/operations/rerun.py"
_CLAIM: Final = "longhaul/domain/claim.py"

RERUNS: Final = (
    Mutant(
        "a tree is run again while a job of it is queued",
        _RERUN,
        "going = None if top.is_mark else self.trees.look_through(top).open",
        "going = None if top.is_finished else top.key",
    ),
    Mutant(
        "a tree is run again while its last rerun goes on",
        _RERUN,
        "for top in (root, *self._reruns(root)[0]):",
        "for top in (root,):",
    ),
    Mutant(
        "two reruns with other parameters get in their way",
        _RERUN,
        "self._take_place(rerun)",
        "",
    ),
    Mutant(
        "a success is run again under its own id",
        _RERUN,
        "return fields | {'job_id': job_id, 'rerun_of': lease.job_id}",
        "return fields | {'rerun_of': lease.job_id}",
    ),
    Mutant(
        "a correction of a rerun forgets what that ran again",
        _CLAIM,
        "rerun_of=request.rerun_of or (old.rerun_of if old else None)",
        "rerun_of=request.rerun_of",
    ),
    Mutant(
        "a rerun of a dead job without an id of its own is another job",
        _RERUN,
        "ours = {attributes.JOB_ID: lease.job_id}",
        "pass",
    ),
)
