"""Bugs about the publication of an output."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_FINISH: Final = "longhaul/finish.py"
_TRANSITIONS: Final = "longhaul/domain/transitions.py"
_PUBLICATION: Final = "longhaul/publication.py"
_PUBLISHER: Final = "longhaul/adapters/publisher.py"
_UPLOADER: Final = "longhaul/runner/io/uploader.py"

OUTPUT: Final = (
    Mutant(
        "a function publishes wherever a job's code says",
        "longhaul/adapters/publisher.py",
        "places is not None and goes_elsewhere(pending, places)",
        "False",
        test="tests/handlers/test_forged_output.py::test_a_function_publishes_nothing_where_the_request_does_not_let_it_go",
    ),
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
        "the second look does not start the half hour again",
        _PUBLICATION,
        "lease = self.context.leases.apply(transitions.note_gone(lease, now))",
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
        _TRANSITIONS,
        "requires=_same(lease) | {Clause.UNPUBLISHED: None}, is_own=lambda row: row.id",
        "requires=_same(lease), is_own=lambda row: row.id",
    ),
    Mutant(
        "the list of an unpublished output is struck off",
        "longhaul/domain/pending.py",
        'return "strike off" if row.attempt.published_at else "keep"',
        'return "strike off"',
    ),
    Mutant(
        "one's own commit that comes back is taken for lost",
        _TRANSITIONS,
        "is_own=lambda row: row.id == attempt and row.attempt.output == output",
        "is_own=lambda _: False",
    ),
    Mutant(
        "the uploads of a failed attempt stay",
        _PUBLISHER,
        "        pending = self._load(pending_ref(attempt))\n"
        "        for each in pending.outputs if pending else ():\n            self._withdraw(each)",
        "        del attempt",
    ),
    Mutant(
        "a compaction takes away what was appended since it read",
        _UPLOADER,
        'replaced = (was_read or current) if mode == "overwrite" else None',
        'replaced = current if mode == "overwrite" else None',
    ),
    Mutant(
        "of several outputs one is published, and the others are forgotten",
        _PUBLISHER,
        "for each in due:\n            try:\n                standing = self._make_visible",
        "for each in due[:1]:\n            try:\n                standing = self._make_visible",
    ),
    Mutant(
        "what is left of an output is withdrawn once another shows",
        _PUBLISHER,
        "                standing = self._make_visible(attempt, each, until)",
        "                standing = self._make_visible(attempt, each, until)\n"
        "                for other in due[1:]:\n                    self._withdraw(other.output)",
    ),
    Mutant(
        "an output shows before the uploads of the others are completed",
        _PUBLISHER,
        "        self._complete_all(\n"
        "            outputs,\n"
        "            [each.output for each in due],\n"
        "            until,\n"
        "            looks_only=looks_only,\n"
        "            just_committed=just_committed,\n"
        "        )\n"
        "        for each in due:\n",
        "        for each in due:\n"
        "            self._complete_all(\n"
        "                outputs,\n"
        "                [each.output],\n"
        "                until,\n"
        "                looks_only=looks_only,\n"
        "                just_committed=just_committed,\n"
        "            )\n",
    ),
    Mutant(
        "an upload that grew old is left behind",
        _UPLOADER,
        "if (stale := self._begun.get((bucket, key))) is not None:\n"
        "    self._abort(bucket, key, stale.upload)",
        "",
    ),
    Mutant(
        "what is sent ahead is in no list",
        _UPLOADER,
        "if self._begun:\n    self._list(plans[0].attempt, map(self._pending, plans))",
        "pass",
        test="tests/runner/test_sending_ahead.py"
        "::test_what_was_begun_ahead_is_listed_when_it_ends_between_two_files",
    ),
    Mutant(
        "an upload is taken over whatever its age",
        _UPLOADER,
        "begun.at > oldest",
        "begun.at",
        test="tests/runner/test_sending_ahead.py"
        "::test_an_upload_that_rules_of_the_bucket_may_have_aborted_is_begun_anew",
    ),
    Mutant(
        "an upload is taken over whatever has become of its file",
        _UPLOADER,
        "begun.version == file.version",
        "begun.upload.size == file.size",
        test="tests/runner/test_sending_ahead.py"
        "::test_a_file_whose_column_ids_another_writer_took_meanwhile_is_sent_anew",
    ),
    Mutant(
        "the upload of a file that is gone is left in no list",
        _UPLOADER,
        "self._abort_others(plans, self._stop.check)",
        "pass",
        test="tests/runner/test_sending_ahead.py"
        "::test_a_file_that_is_gone_at_the_end_leaves_no_upload",
    ),
    Mutant(
        "a thread of the job's begins to send behind the end",
        "longhaul/runner/io/sending_ahead.py",
        "with self._lock:\n    self._has_ended = True",
        "self._has_ended = True",
        test="tests/runner/test_sending_ahead.py"
        "::test_the_end_waits_for_what_a_thread_of_the_job_is_about_to_begin",
    ),
    Mutant(
        "an output that can never be published is told at the end of the job",
        "longhaul/runner/io/sending_ahead.py",
        "self.stop.request(StopReason.OUTPUT, str(error), cause=error)",
        "pass",
        test="tests/runner/test_sending_ahead.py"
        "::test_what_can_never_be_published_asks_for_the_stop",
    ),
    Mutant(
        "a format that cannot be appended is computed first",
        "longhaul/runner/running_job.py",
        "self.may_add(target.output, target.name, format)",
        "pass",
        test="tests/runner/test_sending_ahead.py"
        "::test_a_format_that_cannot_be_appended_is_refused_before_anything_is_computed",
    ),
    Mutant(
        "what is sent ahead goes on behind a failure's clearing up",
        "longhaul/runner/attempt.py",
        "self._end_ahead()\n                self.publisher.discard(self.id)",
        "self.publisher.discard(self.id)",
        test="tests/runner/test_sending_ahead.py"
        "::test_a_job_that_fails_leaves_nothing_of_what_was_sent_ahead",
    ),
)
