"""Bugs about jobs without Spark."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_PYTHON: Final = "longhaul/runner/plain/python.py"
_PROGRESS: Final = "tests/runner/test_progress.py"
_INCOMING: Final = "tests/runner/test_incoming.py"
_JOBS: Final = "tests/runner/test_plain_jobs.py"

PLAIN: Final = (
    Mutant(
        "a job without Spark waits for a session",
        "longhaul/runner/attempt.py",
        "is_plain = found.kind is JobKind.PLAIN",
        "is_plain = False",
    ),
    Mutant(
        "a job that has said how much there is counts as alive for ever",
        "longhaul/runner/reporting.py",
        "is_work = effort.is_work or spark.runs_elsewhere",
        "is_work = effort.is_work or spark.runs_elsewhere or self.progress.said is not None",
        # In a world it ends by its timeout, which is as good.
        test=f"{_PROGRESS}::test_a_job_that_has_said_how_far_it_is_stalls_like_any_other",
    ),
    Mutant(
        "processes that a job without Spark has left go on",
        _PYTHON,
        "end_children(before)",
        "pass",
        test=f"{_JOBS}::test_processes_that_a_job_leaves_are_ended",
    ),
    Mutant(
        "a stop leaves the processes of a job without Spark",
        _PYTHON,
        "end_children(spared)",
        "pass",
        test=f"{_JOBS}::test_a_stop_unwinds_the_job_wherever_it_is_and_ends_its_processes",
    ),
    Mutant(
        "a job without Spark can catch its stop",
        _PYTHON,
        "class _Stopped(BaseException):",
        "class _Stopped(Exception):",
        test=f"{_JOBS}::test_a_stop_unwinds_the_job_wherever_it_is_and_ends_its_processes",
    ),
    Mutant(
        "a job gets an input that is not there",
        "longhaul/runner/io/incoming.py",
        "while not self._take(name, is_forked=is_forked):",
        "while False:",
    ),
    Mutant(
        "a stop leaves the download for an attempt that goes on",
        "longhaul/runner/io/incoming.py",
        "self.stop.on_request(self._stopped)",
        "pass",
        test=f"{_INCOMING}::test_a_stop_ends_what_is_brought_before_the_job_begins",
    ),
    Mutant(
        "an input that a forked process uses changes",
        "longhaul/runner/io/incoming.py",
        "if is_forked:\n    self._given.add(name)\n    return name in self._arrived",
        "if is_forked:\n    return name in self._arrived",
        test=f"{_INCOMING}::test_an_input_that_a_forked_process_uses_may_not_change",
    ),
    Mutant(
        "an input changes of whose parent the job knows",
        "longhaul/runner/running_job.py",
        "self.incoming.use_as_listed(*found)",
        "pass",
        test=f"{_INCOMING}::test_an_input_of_whose_parent_the_job_knows_may_not_change",
    ),
    Mutant(
        "what a forked process waits for has no turn",
        "longhaul/runner/io/incoming.py",
        "self._asked.add(name)",
        "pass",
        test=f"{_INCOMING}::test_what_a_forked_process_waits_for_comes_before_the_rest_as_well",
    ),
    Mutant(
        "a forked process waits for a lock that a download had",
        "longhaul/runner/reporting.py",
        "return self._lock if os.getpid() == self._process else nullcontext()",
        "return self._lock",
        test=f"{_INCOMING}"
        "::test_a_process_that_is_forked_while_bytes_arrive_waits_and_says_what_it_does",
    ),
    Mutant(
        "an input that its writer deletes first is missing for good",
        "longhaul/runner/io/transfer.py",
        'raise InputChangingError(f"an input is gone while it is read: {error}") from error',
        "raise",
        test="tests/runner/test_staging.py"
        "::test_an_input_that_its_writer_deletes_before_it_writes_it_anew_may_be_there_next_time",
    ),
    Mutant(
        "a table that its writer drops first is missing for good",
        "longhaul/runner/io/table_inputs.py",
        'raise NoInputError(f"input {name!r}: {error}") from error',
        'raise PermanentJobError(f"input {name!r}: {error}") from error',
        test="tests/runner/test_table_inputs.py"
        "::test_a_table_that_is_dropped_while_it_is_read_may_be_there_next_time",
    ),
    Mutant(
        "a manifest of an earlier look counts",
        "longhaul/runner/io/listing.py",
        "listing.manifests = {}",
        "pass",
        test="tests/runner/test_work_area.py"
        "::test_a_manifest_that_is_gone_when_its_output_is_looked_at_again_does_not_count",
    ),
    Mutant(
        "a cluster copies another object than was listed",
        "longhaul/runner/io/cluster_staging.py",
        "if source.etag else how",
        "if False else how",
        test="tests/runner/test_work_area.py"
        "::test_an_object_that_is_replaced_before_it_is_copied_is_listed_as_it_is_then",
    ),
    Mutant(
        "what a forked process writes is lost",
        "longhaul/runner/running_job.py",
        "if os.getpid() != self._process:",
        "if False:",
        test=f"{_JOBS}::test_what_a_forked_process_would_lose_is_refused_there",
    ),
    Mutant(
        "an attempt goes on from stored work while its inputs may change",
        "longhaul/runner/attempt.py",
        "if lease.saved_ref is not None:\n            incoming.bring()",
        "if False:\n            incoming.bring()",
        test=f"{_INCOMING}::test_an_attempt_that_goes_on_has_all_its_inputs_before_its_job_begins",
    ),
)
