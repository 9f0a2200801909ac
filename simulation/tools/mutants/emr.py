"""Bugs of jobs on EMR Serverless."""

from typing import Final

from simulation.tools.mutants.mutant import Mutant

_ENDS: Final = "longhaul/engines/emr_serverless/ends.py"
_TASKS: Final = "longhaul/engines/emr_serverless/tasks.py"
_CONTRACT: Final = "tests/contract/test_job_runs.py"

EMR: Final = (
    Mutant(
        "a driver's exit code is not read",
        _ENDS,
        "return int(match[1]) if match else None",
        "return None",
    ),
    Mutant(
        "a driver that was killed for its memory has only failed",
        _ENDS,
        "if kind is OutcomeClass.FAILED and says_out_of_memory(details)",
        "if kind is OutcomeClass.FAILED and not details",
    ),
    Mutant(
        "a job run that finds no vCPU was interrupted",
        _ENDS,
        "found_room = is_placed or not says_no_room(details)",
        "found_room = True",
    ),
    Mutant(
        "a refusal of EMR Serverless counts as an interruption",
        _ENDS,
        'errors=("EMRServerless.",)',
        'errors=("EMRServerless.Service",)',
    ),
    Mutant(
        "a driver whose role may not fetch the code has failed",
        _ENDS,
        "if not is_placed and says_not_to_be_had(details)",
        "if is_placed and says_not_to_be_had(details)",
    ),
    Mutant(
        "a job run does not name the region to its driver",
        "longhaul/engines/emr_serverless/construct.py",
        "'spark.emr-serverless.driverEnv.AWS_DEFAULT_REGION': region",
        "'spark.emr-serverless.driverEnv.REGION': region",
        test="tests/cdk/test_emr_serverless.py::"
        "test_workers_get_the_region_that_emr_does_not_give_them",
    ),
    Mutant(
        "a job run that waits for its driver was interrupted",
        _ENDS,
        "queues=True",
        "queues=False",
    ),
    Mutant(
        "a driver that waits for executors was interrupted",
        "longhaul/domain/classify.py",
        "is_alone = attempt.progress.get('phase') == _PHASE_WITHOUT_EXECUTORS",
        "is_alone = False",
    ),
    Mutant(
        "a driver that waits for executors has stalled",
        "longhaul/runner/reporting.py",
        "return Phase.WAITING if is_waiting else self.progress.shown_phase",
        "return self.progress.shown_phase",
    ),
    Mutant(
        "a job run that an operator cancels has failed",
        _ENDS,
        "return Verdict(OutcomeClass.INTERRUPTED, said)",
        "return Verdict(OutcomeClass.FAILED, said)",
    ),
    Mutant(
        "a job run whose driver runs is not found",
        _TASKS,
        '_ALIVE: Final = ("SUBMITTED", "QUEUED", "PENDING", "SCHEDULED", "RUNNING")',
        '_ALIVE: Final = ("SUBMITTED", "QUEUED", "PENDING", "SCHEDULED")',
    ),
    Mutant(
        "a job run that is not cancelled counts as cancelled",
        _TASKS,
        "self._client.cancel_job_run(applicationId=self._application, jobRunId=id_)",
        "self._client",
    ),
    Mutant(
        "a job run that is being cancelled counts as gone",
        _TASKS,
        "self._listed((*_ALIVE, _ENDING))",
        "self._listed(_ALIVE)",
        test=f"{_CONTRACT}::test_a_job_run_is_listed_until_it_ends_and_gone_when_it_has",
    ),
    Mutant(
        "a job run of another attempt is cancelled",
        _TASKS,
        'each.get("name") == name',
        'each.get("name", "").split()[0] == name.split()[0]',
        test=f"{_CONTRACT}::test_stop_cancels_the_job_run_of_the_attempt_and_no_other",
    ),
)
