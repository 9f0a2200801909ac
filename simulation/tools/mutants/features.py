"""Bugs of what hangs on the protocol: outputs, what jobs store, pipelines, notices, engines."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_ANNOUNCING: Final = "longhaul/notices/announcer.py"
_CLAIM: Final = "longhaul/core/claim.py"
_COMMITS: Final = "longhaul/outputs/iceberg/commits.py"
_ENDS: Final = "longhaul/engines/emr_serverless/ends.py"
_FAILURES: Final = "longhaul/runner/failures.py"
_FINISH: Final = "longhaul/core/finish.py"
_FOLLOWING: Final = "longhaul/pipelines/following.py"
_FOLLOW_ONS: Final = "longhaul/pipelines/follow_ons.py"
_HISTORY: Final = "longhaul/outputs/iceberg/history.py"
_JOINS: Final = "longhaul/pipelines/joins.py"
_LAMBDA: Final = "longhaul/engines/aws_lambda/ends.py"
_PUBLICATION: Final = "longhaul/outputs/publication.py"
_PUBLISHER: Final = "longhaul/outputs/publisher.py"
_SAVED: Final = "longhaul/saved/record.py"
_SAVING: Final = "longhaul/runner/saving.py"
_TRANSITIONS: Final = "longhaul/core/transitions.py"
_TREE_ENDS: Final = "longhaul/pipelines/tree_ends.py"

OUTPUT: Final = (
    Mutant(
        "the manifest is written unconditionally",
        _PUBLISHER,
        "**condition,",
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
        "requires=_same(lease) | {Clause.UNPUBLISHED: None},\n",
        "requires=_same(lease),\n",
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
"""Bugs about the publication of an output."""

TABLES: Final = (
    Mutant(
        "a publication does not look for its own commit",
        _HISTORY,
        "return token in kept or any(",
        "return False and any(",
    ),
    Mutant(
        "a commit without an answer is made again",
        _COMMITS,
        "if not is_due:",
        "if False:",
    ),
    Mutant(
        "an overwrite of a table takes away what came since its upload",
        _COMMITS,
        "return to_replace(self.table, since, None)",
        "return to_replace(self.table, self.table.metadata.current_snapshot_id, None)",
    ),
)
"""Bugs about outputs to tables."""

SAVED: Final = (
    Mutant(
        "a stale attempt moves the pointer of the one that replaced it",
        _SAVING,
        "            if row is None or not row.owns(self._attempt) or row.saved_ref == self._known:\n"
        "                raise\n"
        "            if row.saved_ref is None or not row.saved_ref.startswith(own):\n"
        "                raise\n"
        "            self._report(row.saved_ref, ref, size_bytes)",
        "            if row is None:\n"
        "                raise\n"
        "            self._leases.report(transitions.save(row.id, row.saved_ref, ref, size_bytes,"
        " self._clock.now()))",
    ),
    Mutant(
        "the pointer moves before the record is there",
        _SAVING,
        "        self._store.put(ref, record)\n"
        "        before, self._known = self._known, self._move_pointer(ref, record.size_bytes)",
        "        before, self._known = self._known, self._move_pointer(ref, record.size_bytes)\n"
        "        self._store.put(ref, record)",
    ),
    Mutant(
        "what was stored is never removed",
        "longhaul/saved/keeper.py",
        'decide_saved(row, self.context.clock.now()) == "remove"',
        'decide_saved(row, self.context.clock.now()) == "never"',
        also=Mutant(
            "nor by who finishes the job",
            "longhaul/saved/keeper.py",
            "            self.store.remove(lease.id)",
            "            pass",
        ),
    ),
    Mutant(
        "what a job may still take over is removed",
        _SAVED,
        'case State.RUNNING | State.RELEASED:\n            return "keep"',
        'case State.RUNNING | State.RELEASED:\n            return "remove"',
    ),
)
"""Bugs about what a job stores for its next attempt."""

SECRETS: Final = (
    Mutant(
        "the error of a job shows a secret",
        _FAILURES,
        "said = mask(raw)",
        "said = raw",
    ),
)
"""Bugs about the secrets of stages."""

FOLLOW_ONS: Final = (
    Mutant(
        "a repeated follow-on gets another job id",
        "longhaul/core/descent.py",
        'hashlib.sha256(f"{parent}\\n{n}".encode())',
        'hashlib.sha256(__import__("os").urandom(20))',
    ),
    Mutant(
        "the emitted requests are ignored",
        _FOLLOWING,
        "if output and output.emitted is not None:",
        "if False:",
    ),
    Mutant(
        "the join starts with one member missing",
        _JOINS,
        "if standing.waits_for:",
        "if standing.waits_for > 1:",
    ),
    Mutant(
        "a repeated success counts twice",
        _JOINS,
        'new = f"{ABSENT} OR {OF_ANOTHER_RUN}"',
        'new = f"{ABSENT} OR attribute_exists(#key) OR {OF_ANOTHER_RUN}"',
    ),
    Mutant(
        "the opener of a join is the stage before it",
        "longhaul/pipelines/pipeline.py",
        "nearest = next(iter(self.splits(name)), self.collected(name))",
        "nearest = self.collected(name)",
    ),
    Mutant(
        "an emission of none leaves its place to be waited for",
        _FOLLOW_ONS,
        "{to: count for to, count in led_to.items() if count and leads(to, name)}",
        "{to: count or 1 for to, count in led_to.items() if leads(to, name)}",
    ),
    Mutant(
        "an inner join is not waited for by the outer one",
        _FOLLOW_ONS,
        "led_to[name] = 1",
        "led_to[name] = 0",
    ),
    Mutant(
        "a place beyond the group is in it",
        "longhaul/pipelines/descent_check.py",
        "return (lineage, job_id) == (true, made)",
        "return job_id == made",
        also=Mutant(
            "and any place counts",
            "longhaul/pipelines/descent_check.py",
            "if n >= size:",
            "if n > size:",
        ),
    ),
    Mutant(
        "a join may start before its members have arrived",
        "longhaul/pipelines/descent_check.py",
        "if stored is None:\n",
        "if stored is None:\n            return request\n",
    ),
    Mutant(
        "a job that runs again changes nothing at its join",
        _JOINS,
        "if noted == replaced.run:",
        "if noted <= replaced.run:",
    ),
    Mutant(
        "what a later run leads to is a duplicate",
        _CLAIM,
        "if led_by.run > lease.lineage.run:",
        "if led_by.run > lease.lineage.run and not lease.run:",
    ),
    Mutant(
        "an append that runs again leaves its old rows beside the new ones",
        "longhaul/runner/io/destinations.py",
        "if replaced or is_of_earlier_run(file.path, token)",
        "if replaced",
    ),
)
"""Bugs about follow-ons, joins and lineage."""

NOTICES: Final = (
    Mutant(
        "a success is told before it is published",
        _FINISH,
        "if lease.attempt.published_at is None:\n",
        "self.announcer.ended(lease, stage, until)\n"
        "                if lease.attempt.published_at is None:\n",
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
        "return stage.tells_trees and _may_begin_tree(lease)",
        "return False",
    ),
)
"""Bugs about what a stage's `notify` is told."""

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
"""Bugs of jobs that run in a Lambda function."""

EMR: Final = (
    Mutant(
        "a driver's exit code is not read",
        _ENDS,
        "return int(match[1]) if match else None",
        "return None",
    ),
)
"""Bugs of jobs on EMR Serverless."""
