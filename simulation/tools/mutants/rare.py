"""Bugs that only rare worlds show: late batches, stages taken out, rows that expire, long waits."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_CLAIM: Final = "longhaul/domain/claim.py"
_CLASSIFY: Final = "longhaul/domain/classify.py"
_OUTCOME: Final = "longhaul/domain/outcome.py"

RARE: Final = (
    Mutant(
        "a batch that comes late replaces a newer receive",
        _CLAIM,
        "    if message.message_id == before.message_id"
        " and message.receive_count < before.receive_count:\n"
        "        return before\n",
        "",
    ),
    Mutant(
        "a task does not know a stage that was taken out",
        "longhaul/runner/attempt.py",
        "stage = self.settings.stage_or_removed(lease.stage)",
        "stage = self.settings.stage(lease.stage)",
    ),
    Mutant(
        "the sweeper forgets a stage that was taken out",
        "longhaul/sweep.py",
        "removed = self.context.index.stages(names) - names",
        "removed = set()",
    ),
    Mutant(
        "a task that is cut off until its time is up has run too long",
        _CLASSIFY,
        "attempt.reported_at is not None and up_at - attempt.reported_at >= _UNHEARD",
        "attempt.reported_at is None and up_at >= attempt.progress_at + _UNHEARD",
    ),
    Mutant(
        "the row of a job that runs again expires",
        "longhaul/adapters/dynamodb/item.py",
        "    if not lease.open_kind:\n",
        "    if True:\n",
    ),
    Mutant(
        "a message is never renewed for its age",
        "longhaul/domain/message.py",
        "(now - self.sent_at).total_seconds() >= timing.renew_age_s",
        "False",
    ),
    Mutant(
        "the wait for a slot counts as a lack of room",
        _CLAIM,
        "return old.unplaced_since + max(now - due_at, timedelta(0))",
        "return old.unplaced_since",
    ),
    Mutant(
        "a void commit that ends a job leaves the time of its success",
        _OUTCOME,
        "return dead(replace(row, settled_at=now))",
        "return dead(row)",
        test="tests/unit/test_lease.py::test_job_whose_commit_was_void_too_often_is_dead",
    ),
    Mutant(
        "two sweeps that miss a message send two copies",
        "longhaul/sweep.py",
        "except LeaseChangedError:\n    return",
        "except LeaseChangedError:\n    noted = lease",
        test="tests/unit/test_sweep.py::test_copy_that_another_sweep_sends_is_not_sent_twice",
    ),
    Mutant(
        "of two sweeps that miss a message both note it",
        "longhaul/domain/transitions.py",
        "look = {Clause.NEVER_SEEN: None} if seen_at is None else {Clause.SAME_SEEN: seen_at}",
        "look: dict[Clause, Any] = {}",
        test="tests/contract/test_leases.py::test_of_two_that_miss_a_message_one_notes_it",
    ),
    Mutant(
        "a follow-on that waits outlives the row of its parent",
        "longhaul/batch.py",
        "self._keep_proof(message)",
        "",
        test="tests/handlers/test_long_waits.py::test_follow_on_that_waited_for_130_days_starts",
    ),
    Mutant(
        "a dead letter is struck off when it has been told",
        "longhaul/batch.py",
        "self.context.queue.send(batch.stage.dead_letter_queue_url, dead_letter(content, reason))\n"
        "        batch.struck_off(message_id, reason)\n",
        "self.context.queue.send(batch.stage.dead_letter_queue_url, dead_letter(content, reason))\n"
        "        self.announcer.refused(batch.stage, reason, message_id)\n"
        "        batch.struck_off(message_id, reason)\n"
        "        batch.refused.pop()\n",
        test="tests/handlers/test_notices.py"
        "::test_a_target_that_hangs_until_the_batch_is_over_doubles_no_dead_letter",
    ),
    Mutant(
        "a target that hangs is asked for each job",
        "longhaul/announcing.py",
        "self.hung[target] = ended_at",
        "",
        test="tests/handlers/test_notices.py"
        "::test_a_target_that_did_not_answer_is_spared_for_a_minute",
    ),
    Mutant(
        "a throttled limit may become none",
        "longhaul/adapters/dynamodb/slots.py",
        "max(1, limit // 2)",
        "limit // 2",
        test="tests/contract/test_leases.py"
        "::test_one_slot_is_left_however_often_a_stage_is_throttled",
    ),
    Mutant(
        "a FIFO target drops the notice of a job's next run",
        "longhaul/adapters/notices.py",
        '"MessageDeduplicationId": notice.id',
        '"MessageDeduplicationId": notice.subject',
        test="tests/contract/test_notices.py"
        "::test_a_fifo_queue_takes_the_notices_of_two_runs_of_one_job",
    ),
    Mutant(
        "reports of a healthy job are so rare that it looks silent",
        "longhaul/domain/beat.py",
        "report_overdue_s(stall_timeout_s) / _REPORTS_UNTIL_OVERDUE",
        "report_overdue_s(stall_timeout_s) * _REPORTS_UNTIL_OVERDUE",
        test="tests/unit/test_beat.py"
        "::test_three_reports_in_a_row_may_be_lost_before_a_runner_counts_as_silent",
    ),
    Mutant(
        "a job that works again after a rest is reported when its rest was a stall",
        "longhaul/runner/reporting.py",
        "or rest_s > longest_s",
        "",
        test="tests/runner/test_progress.py"
        "::test_an_advance_after_a_rest_is_reported_before_the_rest_counts_as_a_stall",
    ),
    Mutant(
        "a report that was lost counts as written",
        "longhaul/runner/reporting.py",
        "self._could_not_write(look.at, error)",
        "self._written_at = look.at",
        test="tests/runner/test_progress.py"
        "::test_a_report_that_could_not_be_written_is_made_again_at_the_next_look",
    ),
    Mutant(
        "a beat leaves a message alone that shows before the next beat",
        "longhaul/domain/beat.py",
        "timing.visibility_factor * interval + _MARGIN_LEFT * timing.visibility_margin_s",
        "0",
        test="tests/unit/test_beat.py::test_message_is_extended_before_a_late_beat_would_show_it",
    ),
)
