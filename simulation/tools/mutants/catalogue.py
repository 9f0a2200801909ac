"""Bugs that systems of this kind have had. Each must make an invariant fail.

A mutant changes the real code, and its name says what the changed code does wrong.
"""

from collections.abc import Mapping
from typing import Final

from simulation.tools.mutants.mutant import Mutant
from simulation.tools.mutants.when_sent import WHEN_SENT

_JOINS: Final = "longhaul/adapters/dynamodb/joins.py"
_LEASES: Final = "longhaul/adapters/dynamodb/leases.py"
_SLOTS: Final = "longhaul/adapters/dynamodb/slots.py"
_PUBLISHER: Final = "longhaul/adapters/publisher.py"
_PUBLICATION: Final = "longhaul/publication.py"
_BEAT: Final = "longhaul/domain/beat.py"
_CLAIM: Final = "longhaul/domain/claim.py"
_LEASE: Final = "longhaul/domain/lease.py"
_OUTCOME: Final = "longhaul/domain/outcome.py"
_VERDICT: Final = "longhaul/domain/verdict.py"
_SCHEDULE: Final = "longhaul/domain/schedule.py"
_DISPATCH: Final = "longhaul/dispatch.py"
_FINISH: Final = "longhaul/finish.py"
_SETTLE: Final = "longhaul/settle.py"
_SWEEP: Final = "longhaul/sweep.py"


ALL: Final = (
    # The fence.
    Mutant(
        "an older attempt writes to the row",
        _LEASES,
        'MINE = "run = :run AND attempt = :attempt"',
        'MINE = "run = :run AND attempt >= :attempt"',
    ),
    Mutant(
        "two tasks work on one attempt",
        _LEASES,
        "OR task_arn = :task_arn)",
        "OR task_arn <= :task_arn OR task_arn > :task_arn)",
    ),
    Mutant(
        "a failure overrules a commit",
        _LEASES,
        "clauses = [RUNNING, MINE] if before.attempt.output else [RUNNING, MINE, UNCOMMITTED]",
        "clauses = [RUNNING, MINE]",
    ),
    Mutant(
        "a commit succeeds after the cancel mark",
        _LEASES,
        "clauses = [UNCOMMITTED, NOT_CANCELLED]",
        "clauses: list[str] = []",
    ),
    Mutant(
        "the execution name lacks the attempt",
        "longhaul/domain/lease.py",
        "        return self.token\n",
        '        return f"{self.key_hash}-{self.run}"\n',
    ),
    Mutant(
        "the probe sends another input than the row's",
        _DISPATCH,
        "closed_as = self.executions.ensure_started(lease.id.execution_name, lease.execution_input)\n        row =",
        'closed_as = self.executions.ensure_started(lease.id.execution_name, lease.execution_input + " ") or "ABORTED"\n        row =',
    ),
    # Slots and history.
    Mutant(
        "the end of an attempt is not recorded",
        _LEASES,
        ", self._keep(ended(before, after))",
        "",
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
    # The message.
    Mutant(
        "the list of batch failures starts empty",
        _DISPATCH,
        "batch = Batch(stage, {delivery.message_id for delivery in deliveries}, until)",
        "batch = Batch(stage, set(), until)",
    ),
    Mutant(
        "an adoption keeps the old receipt handle",
        _LEASES,
        "items.attributes_of(after, names)",
        'items.attributes_of(after, names) | items.attributes_of(lease, ["receipt_handle"])',
    ),
    Mutant(
        "the 12 hour limit of SQS is ignored",
        _SCHEDULE,
        "return max(0, min(wanted, math.floor(MAX_VISIBILITY_S - held_s)))",
        "return wanted",
        also=Mutant(
            "messages are not handed over",
            _BEAT,
            "if held_s >= timing.hand_over_age_s:",
            "if held_s >= 10 * timing.hand_over_age_s:",
        ),
    ),
    Mutant(
        "extensions grow with the age of the receive",
        _SCHEDULE,
        "timing.visibility_factor * interval + timing.visibility_margin_s)",
        "timing.visibility_factor * interval + timing.visibility_margin_s + 20 * held_s)",
    ),
    Mutant(
        "a late beat overrides the back-off",
        "longhaul/beat.py",
        "            self._undo(lease, handle, error.current)\n",
        "",
    ),
    Mutant(
        "the policy is judged at every attempt",
        _DISPATCH,
        "if not decision.starts_run or self._is_allowed(message, lease, batch):",
        "if self._is_allowed(message, lease, batch):",
    ),
    Mutant(
        "conflicting work is dropped as a duplicate",
        _CLAIM,
        "return Conflict(lease)",
        "return Duplicate()",
    ),
    Mutant(
        "a worn-out message is deleted without a copy",
        "longhaul/batch.py",
        "            self.queue.send(batch.stage.queue_url, copy)\n",
        "",
    ),
    *WHEN_SENT,
    # The outcome.
    Mutant(
        "the message is deleted before the publish",
        _OUTCOME,
        "owed = (*publish, *follow_ons, Owed.DELETE)",
        "owed = (Owed.DELETE, *follow_ons, *publish)",
    ),
    Mutant(
        "settle publishes nothing",
        _OUTCOME,
        "publish = () if lease.attempt.published_at else (Owed.PUBLISH,)",
        "publish: tuple[Owed, ...] = ()",
    ),
    Mutant(
        "no dead letter is sent",
        _OUTCOME,
        "owed=(Owed.DEAD_LETTER, Owed.DELETE)",
        "owed=(Owed.DELETE,)",
    ),
    Mutant(
        "a dead letter lacks its job id",
        "longhaul/domain/dead_letter.py",
        "if reason.key and attributes.JOB_ID not in theirs:",
        "if reason.key and attributes.JOB_ID in theirs:",
    ),
    Mutant(
        "settle ignores a committed output",
        _VERDICT,
        "    if attempt.output is not None:\n        return Verdict(",
        "    if attempt.output is None and False:\n        return Verdict(",
    ),
    Mutant(
        "an interruption counts as a failure",
        _OUTCOME,
        "row = replace(row, interruptions=lease.interruptions + 1)\n        hopeless = row.interruptions >= timing.max_interruptions",
        "row = replace(row, interruptions=lease.interruptions + 1, failures=lease.failures + 1)\n        hopeless = row.failures >= lease.max_attempts",
    ),
    Mutant(
        "a job gets one attempt too many",
        _OUTCOME,
        "row.failures >= lease.max_attempts",
        "row.failures > lease.max_attempts",
    ),
    Mutant(
        "a job gets one attempt too few",
        _OUTCOME,
        "row.failures >= lease.max_attempts",
        "row.failures >= lease.max_attempts - 1",
    ),
    Mutant(
        "the next attempt does not wait for a stop",
        _OUTCOME,
        "        wait = max(wait, schedule.stop_clearance_s(timing))",
        "        wait += 0",
    ),
    Mutant(
        "a new run ignores a task of the old one",
        _DISPATCH,
        "        if self._is_task_left(claim):\n            self.messages.postpone(batch, message, _STOPPING_S)\n            return\n",
        "",
    ),
    Mutant(
        "settle does not stop a timed-out task",
        _SETTLE,
        "if verdict.stop_task and task_arn:",
        "if False:",
    ),
    Mutant(
        "an aborted execution counts as a failure",
        _VERDICT,
        "return Verdict(OutcomeClass.INTERRUPTED, words, stop)",
        "return Verdict(OutcomeClass.FAILED, words, stop)",
    ),
    Mutant(
        "a failed job's message is held for 12 hours",
        _FINISH,
        "            self.release(lease, retry_in_s or 0)\n",
        "            self.release(lease, 43_000)\n",
    ),
    Mutant(
        "an attempt without a task counts as an interruption",
        _VERDICT,
        "return Verdict(OutcomeClass.NOT_PLACED, words)",
        "return Verdict(OutcomeClass.INTERRUPTED, words)",
    ),
    Mutant(
        "a task that is cut off from the network has stalled",
        _VERDICT,
        "if own is OutcomeClass.STALLED and _is_cut_off(lease):",
        "if own is OutcomeClass.STALLED and _is_cut_off(lease) and lease.stage == '':",
    ),
    Mutant(
        "a task that never starts is waited for",
        _BEAT,
        "if progress_at is None and age_s >= timing.start_timeout_s:",
        "if progress_at is None and age_s >= 100 * timing.start_timeout_s:",
    ),
    Mutant(
        "a lowered limit never rises again",
        _SLOTS,
        "if limit < stage.slots and now - time_of(slots['limit_changed_at']) >= CALM:",
        "if limit < stage.slots and now - time_of(slots['limit_changed_at']) >= 99_999 * CALM:",
    ),
    # The output.
    Mutant(
        "the manifest is written unconditionally",
        _PUBLISHER,
        ", **condition",
        "",
    ),
    Mutant(
        "an append drops the existing files",
        "longhaul/domain/manifest.py",
        "kept = [file for file in current.files if file.path not in gone] if current else []",
        "kept: list[ManifestFile] = []",
    ),
    Mutant(
        "what S3 answers counts, and not what is there",
        _PUBLISHER,
        "run_all(completions, at_once=_AT_ONCE, within_s=left_s(until, self._clock))\n"
        "            missing = self._missing(pending)\n",
        "run_all(completions, at_once=_AT_ONCE, within_s=left_s(until, self._clock))\n"
        "            missing = []\n",
    ),
    Mutant(
        "uploads that look gone once make a commit void",
        _PUBLICATION,
        "self.leases.note_gone(lease, self.clock.now())",
        "raise VoidCommitError(str(error)) from error",
    ),
    Mutant(
        "uploads are completed between the two looks",
        _PUBLICATION,
        "looks_only=rests",
        "looks_only=False",
    ),
    Mutant(
        "the second look does not start the half hour again",
        _PUBLICATION,
        "lease = self.leases.note_gone(lease, now)",
        "",
    ),
    Mutant(
        "a void commit's files are deleted before its row is reopened",
        _FINISH,
        "            reopened = self.publication.reopen(lease)",
        "            self.publication.discard(lease)\n            reopened = self.publication.reopen(lease)",
    ),
    Mutant(
        "a published output is voided",
        _LEASES,
        "        clauses = [SAME_STATE, MINE, UNPUBLISHED]\n",
        "        clauses = [SAME_STATE, MINE]\n",
    ),
    Mutant(
        "the list of an unpublished output is struck off",
        "longhaul/domain/pending.py",
        'return "strike off" if row.attempt.published_at else "keep"',
        'return "strike off"',
    ),
    Mutant(
        "one's own commit that comes back is taken for lost",
        _LEASES,
        "            return _own_write(error, lambda row: row.id == attempt and row.attempt.output == output)",
        "            raise error",
    ),
    Mutant(
        "the uploads of a failed attempt stay",
        _PUBLISHER,
        "        pending = self._load(pending_ref(attempt))\n        if pending is not None:\n            self._withdraw(pending)",
        "        del attempt",
    ),
    Mutant(
        "a compaction takes away what was appended since it read",
        "jobs/io/publisher.py",
        'replaced = (was_read or current) if mode == "overwrite" else None',
        'replaced = current if mode == "overwrite" else None',
    ),
    # Follow-ons and joins.
    Mutant(
        "a repeated follow-on gets another job id",
        "longhaul/domain/lineage.py",
        'hashlib.sha256(f"{parent}\\n{run}\\n{n}".encode())',
        'hashlib.sha256(__import__("os").urandom(20))',
    ),
    Mutant(
        "follow-ons are sent before the publish",
        _OUTCOME,
        "owed = (*publish, *follow_ons, Owed.DELETE)",
        "owed = (*follow_ons, *publish, Owed.DELETE)",
    ),
    Mutant(
        "the message is deleted before the follow-ons",
        _OUTCOME,
        "owed = (*publish, *follow_ons, Owed.DELETE)",
        "owed = (*publish, Owed.DELETE, *follow_ons)",
    ),
    Mutant(
        "the emitted requests are ignored",
        _FINISH,
        "if output and output.emitted_ref:",
        "if output and not output.emitted_ref and output.emitted_ref:",
    ),
    Mutant(
        "refused entries of a batch count as sent",
        "longhaul/adapters/sqs.py",
        "left = [each for each, to in unsent if not to.is_refused]",
        "left = [each for each, to in unsent if not to.is_refused and not to.again]",
    ),
    Mutant(
        "the join starts with one member missing",
        _JOINS,
        ">= size else None",
        ">= size - 1 else None",
    ),
    Mutant(
        "a repeated arrival counts twice",
        _JOINS,
        """serialized({":place": {n}}) | {":ttl": ttl_of_set},
            ReturnValues="ALL_NEW",
        )["Attributes"]
        return self._outputs(join_key) if len(deserialize(arrived["places"])) >= size else None""",
        """serialized({":place": 1}) | {":ttl": ttl_of_set},
            ReturnValues="ALL_NEW",
        )["Attributes"]
        return self._outputs(join_key) if deserialize(arrived["places"]) >= size else None""",
    ),
    Mutant(
        "an empty fan-out starts no join",
        "longhaul/domain/follow_ons.py",
        "if not requests and name in emitted:",
        "if not requests and name not in emitted:",
    ),
    Mutant(
        "a correction loses its place in the fan-out",
        _CLAIM,
        "lineage=request.lineage or (old.lineage if old else None)",
        "lineage=request.lineage",
    ),
    Mutant(
        "slots are returned to the wrong stage",
        _LEASES,
        "self._slots.given_back(before.stage)",
        'self._slots.given_back("main")',
    ),
    # The sweeper.
    Mutant(
        "the sweeper leaves debts unpaid",
        _SWEEP,
        "is_finished = self.finisher.finish(lease, self._turn_until(report)).is_finished",
        "is_finished = True",
    ),
    Mutant(
        "the sweeper does not settle closed executions",
        _SWEEP,
        "        self.settler.settle(lease.id, closed, self._turn_until(report))\n        report.settled += 1",
        "        report.settled += 1",
    ),
    Mutant(
        "the sweeper settles running executions",
        _SWEEP,
        'if status == "RUNNING":\n            return',
        'if status == "QUIET":\n            return',
    ),
    Mutant(
        "the sweeper does not replace lost messages",
        _SWEEP,
        "if lease.unseen_for(now) < timedelta(seconds=self.settings.lease.missing_after_s):",
        "if lease.key:",
    ),
    Mutant(
        "the sweeper does not stop stray tasks",
        _SWEEP,
        "if row is None or not leased or row.attempt.task_arn not in (None, task.arn):",
        "if row is None:",
    ),
    # Lineage.
    Mutant(
        "whoever names a parent follows from it",
        "longhaul/domain/ancestry.py",
        "return (lineage, job_id) == (true, made)",
        "return True",
    ),
    Mutant(
        "a place beyond the group is in it",
        "longhaul/domain/ancestry.py",
        "return (lineage, job_id) == (true, made)",
        "return job_id == made",
        also=Mutant(
            "and any place counts",
            "longhaul/domain/ancestry.py",
            "if n < size else None",
            "if n <= size else None",
        ),
    ),
    Mutant(
        "a join may start before its members have arrived",
        "longhaul/ancestry.py",
        "if stored is None:\n    raise InvalidRequestError([_FORGED])",
        "if stored is None:\n    return request",
    ),
    Mutant(
        "the age of what is owed is not told",
        _SWEEP,
        "SweeperMetric.OLDEST_OWED: report.oldest_owed_s,",
        "SweeperMetric.OLDEST_OWED: 0,",
    ),
    # Giving up.
    Mutant(
        "what fails again and again is never given up",
        "longhaul/domain/giving_up.py",
        "MAX_ERRORS: Final = 10",
        "MAX_ERRORS: Final = 10**9",
    ),
    Mutant(
        "an outage counts as an error of the message",
        "longhaul/adapters/errors.py",
        "    if isinstance(error, ClientError):\n        return is_refused(error)",
        "    if isinstance(error, ClientError):\n        return True",
    ),
    Mutant(
        "attributes that only resemble ours are unpacked",
        "longhaul/domain/attributes.py",
        "not all(map(_is_attribute, moved, moved.values()))",
        "False",
        also=Mutant(
            "and errors are never too many",
            "longhaul/domain/giving_up.py",
            "MAX_ERRORS: Final = 10",
            "MAX_ERRORS: Final = 10**9",
        ),
    ),
)

MUTANTS: Final[Mapping[str, Mutant]] = {mutant.name: mutant for mutant in ALL}
