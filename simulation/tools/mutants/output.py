"""Bugs about the publication of an output."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_FINISH: Final = "longhaul/core/finish.py"
_TRANSITIONS: Final = "longhaul/core/transitions.py"
_PUBLICATION: Final = "longhaul/outputs/publication.py"
_PUBLISHER: Final = "longhaul/outputs/publisher.py"

OUTPUT: Final = (
    Mutant(
        "the manifest is written unconditionally",
        _PUBLISHER,
        ", **condition",
        "",
    ),
    Mutant(
        "an append drops the existing files",
        "longhaul/outputs/manifest.py",
        "kept = [file for file in current.files if file.path not in gone] if current else []",
        "kept: list[ManifestFile] = []",
    ),
    Mutant(
        "what S3 answers counts, and not what is there",
        _PUBLISHER,
        "run_all(completions, at_once=_AT_ONCE, within_s=left_s)\n"
        "            missing = self._missing(due)\n",
        "run_all(completions, at_once=_AT_ONCE, within_s=left_s)\n            missing = []\n",
    ),
    Mutant(
        "uploads that look gone once make a commit void",
        _PUBLICATION,
        "self.context.leases.apply(transitions.note_gone(lease, self.context.clock.now()))",
        "raise VoidCommitError(str(error)) from error",
    ),
    Mutant(
        "uploads are completed between the two looks",
        _PUBLICATION,
        "looks_only=rests",
        "looks_only=False",
    ),
    Mutant(
        "a void commit's files are deleted before its row is reopened",
        _FINISH,
        "            reopened = self.publication.reopen(lease)",
        "            self.publication.discard(lease.id)\n            reopened = self.publication.reopen(lease)",
    ),
    Mutant(
        "a published output is voided",
        _TRANSITIONS,
        "requires=_same(lease) | {Clause.UNPUBLISHED: None}, is_own=lambda row: row.id",
        "requires=_same(lease), is_own=lambda row: row.id",
    ),
    Mutant(
        "the list of an unpublished output is struck off",
        "longhaul/outputs/pending.py",
        'return "strike off" if row.attempt.published_at else "keep"',
        'return "strike off"',
    ),
    Mutant(
        "the uploads of a failed attempt stay",
        _PUBLISHER,
        "        pending = self._load(attempt)\n"
        "        for each in pending.outputs if pending else ():\n            self._withdraw(each)",
        "        del attempt",
    ),
    Mutant(
        "of several outputs one is published, and the others are forgotten",
        _PUBLISHER,
        "for each in due:\n            try:\n                standing = self._make_visible",
        "for each in due[:1]:\n            try:\n                standing = self._make_visible",
    ),
)
