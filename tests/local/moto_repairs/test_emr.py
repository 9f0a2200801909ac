"""Repairs of EMR Serverless: from a template or a state to a driver."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from longhaul.local.credentials import ADMINISTRATOR
from longhaul.local.emr_driver import JobRunEnd, JobRunSpec
from longhaul.local.moto_repairs import (
    emr as emr_repairs,
)
from longhaul.local.moto_repairs import (
    sfn as sfn_repairs,
)
from longhaul.local.moto_repairs import (
    sfn_sync as sfn_sync_repairs,
)
from longhaul.local.supervised import Observer
from tests.local.moto_repairs.conftest import EXECUTIONS
from tests.local.support import Moto, eventually

ROLE = "arn:aws:iam::123456789012:role/job"
SUBMIT = {
    "entryPoint": "s3://assets/job.py",
    "entryPointArguments": ["{}"],
    "sparkSubmitParameters": "--conf a=b",
}
DETAILS = "Job failed, please check complete logs in configured logging destination. ExitCode: 65."


class FakeDriver:
    """A driver whose job runs end as the test says."""

    def __init__(self) -> None:
        self.specs: dict[str, JobRunSpec] = {}
        self.cancelled: list[str] = []
        self._observers: dict[str, Observer[JobRunEnd]] = {}
        self._callbacks: dict[str, list[Callable[[], None]]] = {}
        self._ended: set[str] = set()

    def run(self, spec: JobRunSpec, observer: Observer[JobRunEnd]) -> None:
        self.specs[spec.arn] = spec
        self._observers[spec.arn] = observer
        observer.started(datetime.now(UTC))

    def stop(self, arn: str, _reason: str) -> None:
        self.cancelled.append(arn)
        self.end(arn, "CANCELLED")

    def on_end(self, arn: str, callback: Callable[[], None]) -> None:
        if arn in self._ended:
            callback()
        else:
            self._callbacks.setdefault(arn, []).append(callback)

    def end(self, arn: str, state: str, details: str = "") -> None:
        self._ended.add(arn)
        self._observers[arn].ended(JobRunEnd(state, details))
        for callback in self._callbacks.pop(arn, []):
            callback()


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


@pytest.fixture
def runs(moto: Moto, driver: Any, *, repaired: bool) -> FakeDriver:
    """The driver, to which the job runs of repaired moto go."""
    if repaired:
        emr_repairs.job_runs(moto.patches, driver)
    return cast("FakeDriver", driver)


@pytest.fixture
def emr(moto: Moto) -> Any:
    return moto.client("emr-serverless")


@pytest.fixture
def application(emr: Any) -> str:
    # The only release that stock moto takes.
    return str(
        emr.create_application(
            name="jobs", releaseLabel='emr-6.6.0" "', type="SPARK", clientToken="t"
        )["applicationId"]
    )


def start(emr: Any, application: str, attempt: str = "one") -> dict[str, Any]:
    started: dict[str, Any] = emr.start_job_run(
        applicationId=application,
        clientToken=attempt,
        executionRoleArn=ROLE,
        jobDriver={"sparkSubmit": SUBMIT},
        name="small run",
    )
    return started


def state_of(emr: Any, application: str, run: dict[str, Any]) -> str:
    return str(
        emr.get_job_run(applicationId=application, jobRunId=run["jobRunId"])["jobRun"]["state"]
    )


def test_job_run_goes_to_the_driver_and_shows_its_state(
    emr: Any, application: str, runs: FakeDriver, *, repaired: bool
) -> None:
    run = start(emr, application)

    assert state_of(emr, application, run) == ("RUNNING" if repaired else "SUCCESS")
    if repaired:
        spec = runs.specs[run["arn"]]
        assert (spec.entry_point, spec.arguments, spec.parameters) == (
            "s3://assets/job.py",
            ("{}",),
            "--conf a=b",
        )
        runs.end(run["arn"], "FAILED", DETAILS)
        ended = emr.get_job_run(applicationId=application, jobRunId=run["jobRunId"])["jobRun"]
        assert (ended["state"], ended["stateDetails"]) == ("FAILED", DETAILS)


@pytest.mark.usefixtures("runs")
def test_one_token_is_one_job_run(emr: Any, application: str, *, repaired: bool) -> None:
    first, again, other = (start(emr, application, token) for token in ("one", "one", "other"))

    assert (first["jobRunId"] == again["jobRunId"]) is repaired
    assert other["jobRunId"] not in (first["jobRunId"], again["jobRunId"])


def test_ended_job_run_cannot_be_cancelled(
    emr: Any, application: str, runs: FakeDriver, *, repaired: bool
) -> None:
    run = start(emr, application)
    ids = {"applicationId": application, "jobRunId": run["jobRunId"]}
    if repaired:
        runs.end(run["arn"], "SUCCESS")
        with pytest.raises(ClientError, match="ValidationException"):
            emr.cancel_job_run(**ids)
    else:
        emr.cancel_job_run(**ids)

    assert state_of(emr, application, run) == ("SUCCESS" if repaired else "CANCELLED")


@pytest.mark.usefixtures("runs")
def test_application_without_job_runs_has_an_empty_list(
    emr: Any, application: str, *, repaired: bool
) -> None:
    refused = pytest.raises(ClientError, match="ResourceNotFoundException")
    with nullcontext() if repaired else refused:
        assert emr.list_job_runs(applicationId=application)["jobRuns"] == []


def start_job_run(application: str) -> dict[str, Any]:
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::emr-serverless:startJobRun.sync",
        "Parameters": {
            "ApplicationId": application,
            "ExecutionRoleArn": ROLE,
            "ClientToken.$": "$$.Execution.Name",
            "Name.$": "States.Format('{} {}', $.size, $.what)",
            "JobDriver": {
                "SparkSubmit": {
                    "EntryPoint": "s3://assets/job.py",
                    "EntryPointArguments": ['{"a":"b"}'],
                }
            },
        },
    }


INPUT = {"size": "small", "what": "run"}


@pytest.fixture
def sync(moto: Moto, driver: Any) -> None:
    emr_repairs.job_runs(moto.patches, driver)
    client_for = sfn_repairs.clients(moto.patches, moto.endpoint, lambda _: ADMINISTRATOR)
    moto.apply(*EXECUTIONS)
    sfn_sync_repairs.services(moto.patches, client_for, job_runs=driver.on_end)


@pytest.fixture
def run(sync: None, application: str, machine: Callable[..., Any]) -> tuple[Any, str]:
    """A machine whose one state is a job run, and its execution."""
    del sync  # it is repaired
    running = machine(Run={**start_job_run(application), "End": True})
    return running, running.start(**INPUT)


def started(driver: FakeDriver) -> str:
    eventually(lambda: driver.specs, "the job run is there")
    (arn,) = driver.specs
    return arn


def test_state_succeeds_with_its_job_run(driver: FakeDriver, run: tuple[Any, str]) -> None:
    running, execution = run
    arn = started(driver)

    driver.end(arn, "SUCCESS")

    output = json.loads(running.end_of(execution)["output"])
    assert (output["State"], output["Name"]) == ("SUCCESS", "small run")
    assert driver.specs[arn].arguments == ('{"a":"b"}',)


def test_failed_job_run_fails_the_state_with_its_description_as_cause(
    driver: FakeDriver, run: tuple[Any, str]
) -> None:
    running, execution = run

    driver.end(started(driver), "FAILED", DETAILS)

    end = running.end_of(execution)
    cause = json.loads(end["cause"])
    assert end["error"] == "States.TaskFailed"
    assert (cause["State"], cause["StateDetails"], isinstance(cause["UpdatedAt"], int)) == (
        "FAILED",
        DETAILS,
        True,
    )
    assert cause["JobRunId"]


def test_stopped_execution_cancels_its_job_run(driver: FakeDriver, run: tuple[Any, str]) -> None:
    running, execution = run
    arn = started(driver)

    running.client.stop_execution(executionArn=execution)

    eventually(lambda: driver.cancelled == [arn], "the job run is cancelled")


@pytest.mark.usefixtures("sync")
def test_error_of_an_unknown_application_can_be_caught(machine: Callable[..., Any]) -> None:
    catch = [{"ErrorEquals": ["States.ALL"], "Next": "Caught"}]

    end = machine(
        Run={**start_job_run("none"), "Catch": catch, "End": True},
        Caught={"Type": "Pass", "End": True},
    ).run(**INPUT)

    assert json.loads(end["output"])["Error"] == "EMRServerless.ResourceNotFoundException"
