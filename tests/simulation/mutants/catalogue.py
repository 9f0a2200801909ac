"""Bugs that such systems have had, or nearly: each is one change to the real code, and each must make an invariant fail."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_JOINS: Final = "longhaul/adapters/dynamodb_joins.py"
_LEASES: Final = "longhaul/adapters/dynamodb_leases.py"
_SLOTS: Final = "longhaul/adapters/dynamodb_slots.py"
_PUBLISHER: Final = "longhaul/adapters/s3_publisher.py"
_BEAT: Final = "longhaul/domain/beat.py"
_CLAIM: Final = "longhaul/domain/claim.py"
_OUTCOME: Final = "longhaul/domain/outcome.py"
_SCHEDULE: Final = "longhaul/domain/schedule.py"
_DISPATCH: Final = "longhaul/dispatch.py"
_FINISH: Final = "longhaul/finish.py"
_SETTLE: Final = "longhaul/settle.py"
_SWEEP: Final = "longhaul/sweep.py"


@dataclass(frozen=True)
class Mutant:
    """`old` is in `file` exactly once. `also`: a second change, where one alone would change nothing, because another rule covers it."""

    name: str
    file: str
    old: str
    new: str
    also: "Mutant | None" = None

    @property
    def changes(self) -> "tuple[Mutant, ...]":
        return (self, *(self.also.changes if self.also else ()))


ALL: Final = (
    # The fence.
    Mutant(
        "no fence", _LEASES, 'MINE = "run = :run AND attempt = :attempt"', 'MINE = "run = :run AND attempt >= :attempt"'
    ),
    Mutant(
        "a second task of the attempt works too",
        _LEASES,
        "OR task_arn = :task_arn)",
        "OR task_arn <= :task_arn OR task_arn > :task_arn)",
    ),
    Mutant(
        "a failure overrules a commit",
        _LEASES,
        "clauses = [RUNNING, MINE] if before.output else [RUNNING, MINE, UNCOMMITTED]",
        "clauses = [RUNNING, MINE]",
    ),
    Mutant(
        "a commit after the cancel mark",
        _LEASES,
        "clauses=[RUNNING, MINE, UNCOMMITTED, NOT_CANCELLED]",
        "clauses=[RUNNING, MINE]",
    ),
    Mutant(
        "the execution's name lacks the attempt",
        "longhaul/domain/lease.py",
        "        return self.token\n",
        '        return f"{self.key_hash}-{self.run}"\n',
    ),
    Mutant(
        "the probe's input differs from the row's",
        _DISPATCH,
        "closed_as = self.executions.ensure_started(lease.id.execution_name, lease.execution_input)\n        row =",
        'closed_as = self.executions.ensure_started(lease.id.execution_name, lease.execution_input + " ") or "ABORTED"\n        row =',
    ),
    # Slots, and what is remembered.
    Mutant("nobody remembers how an attempt ended", _LEASES, ", self._keep(ended(before, after))", ""),
    Mutant(
        "a settled attempt keeps its slot",
        _LEASES,
        "self._slots.change(before.stage, -1)",
        "self._slots.change(before.stage, 0)",
    ),
    Mutant(
        "a claim takes no slot",
        _LEASES,
        "self._slots.change(stage.name, +1, limit=stage.slots)",
        "self._slots.change(stage.name, 0)",
    ),
    # The message.
    Mutant(
        "the failure list is built late",
        _DISPATCH,
        "batch = Batch(stage, kept={delivery.message_id for delivery in deliveries}, waiting=[])",
        "batch = Batch(stage, kept=set(), waiting=[])",
    ),
    Mutant(
        "an adoption keeps the old handle",
        _LEASES,
        '            "receipt_handle": after.receipt_handle,\n',
        '            "receipt_handle": lease.receipt_handle,\n',
    ),
    Mutant(
        "the 12 h cap is ignored",
        _SCHEDULE,
        "return max(0, min(wanted, math.floor(SQS_VISIBILITY_CAP_S - _CAP_MARGIN_S - held_s)))",
        "return wanted",
        also=Mutant(
            "no hand-over", _BEAT, "if held_s >= numbers.hand_over_age_s:", "if held_s >= 10 * numbers.hand_over_age_s:"
        ),
    ),
    Mutant(
        "an extension that grows",
        _SCHEDULE,
        "wanted = math.ceil(numbers.visibility_factor * interval + numbers.visibility_margin_s)",
        "wanted = math.ceil(numbers.visibility_factor * interval + numbers.visibility_margin_s + 20 * held_s)",
    ),
    Mutant(
        "a late beat undoes the back-off",
        "longhaul/beat.py",
        "            self._undo(lease, handle, error.current)\n",
        "",
    ),
    Mutant("other work under a key is dropped in silence", _CLAIM, "return Conflict(lease)", "return Duplicate()"),
    Mutant(
        "a worn-out message goes without a copy",
        "longhaul/batch.py",
        "            self.queue.send(\n                batch.stage.queue_url,\n                renewal(each.content, each.message.message_id, each.message.key, each.message.first_sent_at),\n            )\n",
        "",
    ),
    # The outcome.
    Mutant(
        "delete before publish",
        _OUTCOME,
        "owed = (*publish, *follow_ons, Owed.DELETE)",
        "owed = (Owed.DELETE, *follow_ons, *publish)",
    ),
    Mutant(
        "nothing is published by settle",
        _OUTCOME,
        "publish = () if lease.published_at else (Owed.PUBLISH,)",
        "publish: tuple[Owed, ...] = ()",
    ),
    Mutant(
        "no dead letter", _OUTCOME, "owed=(Owed.DEAD_LETTER, Owed.DELETE)), verdict)", "owed=(Owed.DELETE,)), verdict)"
    ),
    Mutant(
        "what the row holds does not count",
        _OUTCOME,
        "    if lease.output is not None:\n        return Verdict(",
        "    if lease.output is None and False:\n        return Verdict(",
    ),
    Mutant(
        "Spot counts as a failure",
        _OUTCOME,
        "row = replace(row, interruptions=lease.interruptions + 1)\n        hopeless = row.interruptions >= numbers.max_interruptions",
        "row = replace(row, interruptions=lease.interruptions + 1, failures=lease.failures + 1)\n        hopeless = row.failures >= lease.max_attempts",
    ),
    Mutant("one attempt too many", _OUTCOME, "row.failures >= lease.max_attempts", "row.failures > lease.max_attempts"),
    Mutant(
        "one attempt too few", _OUTCOME, "row.failures >= lease.max_attempts", "row.failures >= lease.max_attempts - 1"
    ),
    Mutant(
        "a stopped task's successor does not wait for its end",
        _OUTCOME,
        "        wait = max(wait, schedule.stop_clearance_s(numbers))",
        "        wait += 0",
    ),
    Mutant(
        "a new run takes no heed of the old one's task",
        _DISPATCH,
        "        if self._is_task_left(claim):\n            self.messages.postpone(batch, each, _STOPPING_S)\n            return\n",
        "",
    ),
    Mutant("a job that ran too long runs on", _SETTLE, "if verdict.stop_task and lease.task_arn:", "if False:"),
    Mutant(
        "a stopped execution is the job's failure",
        _OUTCOME,
        "        return Verdict(OutcomeClass.INTERRUPTED, words, stop, throttled=bool(_THROTTLED.search(words)))",
        "        return Verdict(OutcomeClass.FAILED, words, stop)",
    ),
    Mutant(
        "a failure is never released",
        _FINISH,
        "            self.release(lease, retry_in_s or 0)\n",
        "            self.release(lease, 43_000)\n",
    ),
    # The output.
    Mutant("the manifest is put without a condition", _PUBLISHER, "                    **condition,\n", ""),
    Mutant(
        "an append forgets what was there",
        "longhaul/domain/manifest.py",
        "kept = [file for file in current.files if file.path not in gone] if current else []",
        "kept: list[ManifestFile] = []",
    ),
    Mutant(
        "a void commit counts as published",
        _PUBLISHER,
        'raise VoidCommitError(f"{len(gone)} of {len(pending.uploads)} uploads are gone, {gone[0]} for one")',
        "return",
    ),
    Mutant(
        "a failed attempt's uploads stay",
        _PUBLISHER,
        "        pending = self._load(pending_ref(attempt))\n        if pending is not None:\n            self._abort(pending)",
        "        del attempt",
    ),
    # What follows.
    Mutant(
        "a follow-on gets a new id each time",
        "longhaul/domain/lineage.py",
        'hashlib.sha256(f"{parent}\\n{run}\\n{n}".encode())',
        'hashlib.sha256(__import__("os").urandom(20))',
    ),
    Mutant(
        "what follows is sent before the output shows",
        _OUTCOME,
        "owed = (*publish, *follow_ons, Owed.DELETE)",
        "owed = (*follow_ons, *publish, Owed.DELETE)",
    ),
    Mutant(
        "the message goes before what follows is sent",
        _OUTCOME,
        "owed = (*publish, *follow_ons, Owed.DELETE)",
        "owed = (*publish, Owed.DELETE, *follow_ons)",
    ),
    Mutant(
        "what a job emitted is forgotten",
        _FINISH,
        "if lease.output and lease.output.emitted_ref:",
        "if lease.output and not lease.output.emitted_ref and lease.output.emitted_ref:",
    ),
    Mutant(
        "messages of a batch that SQS did not take are taken for sent",
        "longhaul/adapters/sqs_queue.py",
        "if answer.message_id is None]\n                if not left:",
        "if answer.message_id is None and not answer.again]\n                if not left:",
    ),
    Mutant("the join starts one short", _JOINS, ">= size else None", ">= size - 1 else None"),
    Mutant(
        "an arrival that is repeated counts twice",
        _JOINS,
        """{":place": {"NS": [str(n)]}, ":ttl": ttl},
            ReturnValues="ALL_NEW",
        )["Attributes"]
        return self._outputs(join_key) if len(arrived["places"]["NS"]) >= size else None""",
        """{":place": {"N": "1"}, ":ttl": ttl},
            ReturnValues="ALL_NEW",
        )["Attributes"]
        return self._outputs(join_key) if int(arrived["places"]["N"]) >= size else None""",
    ),
    Mutant(
        "nobody joins a fan-out of none",
        "longhaul/domain/follow_ons.py",
        "if not requests and name in emitted:",
        "if not requests and name not in emitted:",
    ),
    Mutant(
        "a correction takes no place in the fan-out",
        _CLAIM,
        "lineage=request.lineage or (old.lineage if old else None)",
        "lineage=request.lineage",
    ),
    Mutant(
        "every stage gives back the first one's slots",
        _LEASES,
        "self._slots.change(before.stage, -1)",
        'self._slots.change("main", -1)',
    ),
    # The sweeper.
    Mutant(
        "nobody finishes what is owed", _SWEEP, "if self.finisher.finish(lease).is_finished:", "if lease.is_finished:"
    ),
    Mutant(
        "nobody settles a dead execution",
        _SWEEP,
        "        self.settler.settle(lease.id, Evidence.execution_closed(status))\n        report.settled += 1",
        "        report.settled += 1",
    ),
    Mutant(
        "an overdue lease counts as dead",
        _SWEEP,
        'if status == "RUNNING":\n            return',
        'if status == "QUIET":\n            return',
    ),
    Mutant(
        "nobody looks for lost messages",
        _SWEEP,
        "if lease.unseen_for(now) < timedelta(seconds=self.settings.lease.missing_after_s):",
        "if lease.key:",
    ),
    Mutant(
        "nobody stops tasks without a lease",
        _SWEEP,
        "if row is None or not row.owns(task.attempt) or row.task_arn not in (None, task.arn):",
        "if row is None:",
    ),
)

MUTANTS: Final[Mapping[str, Mutant]] = {mutant.name: mutant for mutant in ALL}
