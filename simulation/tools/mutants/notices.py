"""Bugs about what a stage's `notify` is told."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_ANNOUNCING: Final = "longhaul/notices/announcer.py"
_FINISH: Final = "longhaul/core/finish.py"
_TREE_ENDS: Final = "longhaul/pipelines/tree_ends.py"

NOTICES: Final = (
    Mutant(
        "a success is told before it is published",
        _FINISH,
        "if lease.attempt.published_at is None:\n    self.publication.publish(lease, until)",
        "self.announcer.ended(lease, stage, until)\n"
        "if lease.attempt.published_at is None:\n    self.publication.publish(lease, until)",
    ),
    Mutant(
        "a notice that cannot be sent is forgotten",
        _ANNOUNCING,
        "self.untold.owe(stage.name, told, self.context.clock.now())",
        "pass",
    ),
    Mutant(
        "a tree is told while jobs of it go on",
        _TREE_ENDS,
        "if look.open is not None:",
        "if False:",
    ),
    Mutant(
        "a tree is never told",
        _TREE_ENDS,
        "return stage.tells_trees and lease.may_begin_tree",
        "return False",
    ),
)
