"""What the strict EMR Serverless refuses, and `ports.Tasks` on it.

Answers and arguments are held against botocore's model.
"""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.core.lease import AttemptId
from longhaul.engines.emr_serverless.ends import name_of
from longhaul.engines.emr_serverless.tasks import EmrJobRuns
from simulation.aws.cloud import FakeAws
from simulation.aws.emr_serverless.client import FakeEmrServerless
from simulation.aws.emr_serverless.job_runs import Application, JobRun

ROLE = "arn:aws:iam::123456789012:role/job"
ATTEMPT = AttemptId("main#j", 1767323045000, 2)


@pytest.fixture
def emr(fake: FakeAws) -> FakeEmrServerless:
    found: FakeEmrServerless = fake.client("emr-serverless")
    return found


@pytest.fixture
def application(emr: FakeEmrServerless) -> Application:
    id_ = emr.create_application(
        name="jobs",
        releaseLabel="emr-spark-8.0.0",
        type="SPARK",
        clientToken="t",
        maximumCapacity={"cpu": "64 vCPU", "memory": "512 GB"},
    )["applicationId"]
    return emr.applications[id_]


def start(
    emr: FakeEmrServerless, application: Application, name: str, number: int = 0, **more: Any
) -> JobRun:
    id_ = emr.start_job_run(
        applicationId=application.id,
        clientToken=f"token-{number}",
        executionRoleArn=ROLE,
        jobDriver={"sparkSubmit": {"entryPoint": "s3://assets/job.py", **more}},
        name=name,
    )["jobRunId"]
    return application.runs[id_]


def test_a_token_gives_one_job_run_also_when_that_has_ended(
    emr: FakeEmrServerless, application: Application
) -> None:
    run = start(emr, application, "one")
    emr.end(run, "SUCCESS")

    assert start(emr, application, "one") is run
    with pytest.raises(ClientError, match="ConflictException"):
        start(emr, application, "another")


def test_a_job_run_is_cancelling_until_it_ends_and_an_ended_one_cannot_be_cancelled(
    emr: FakeEmrServerless, application: Application
) -> None:
    run = start(emr, application, "one")
    ids = {"applicationId": application.id, "jobRunId": run.id}
    emr.move(run, "RUNNING")
    emr.cancel_job_run(**ids)
    emr.move(run, "RUNNING")  # it is not any more

    assert emr.get_job_run(**ids)["jobRun"]["state"] == "CANCELLING"
    emr.end(run, "SUCCESS")
    assert emr.get_job_run(**ids)["jobRun"]["state"] == "SUCCESS"
    with pytest.raises(ClientError, match="ValidationException"):
        emr.cancel_job_run(**ids)


@pytest.mark.parametrize(
    "parameters", ["--conf spark.master=local", "--jars s3://a/b.jar", "--conf a='b c'"]
)
def test_options_that_emr_does_not_take_are_refused(
    emr: FakeEmrServerless, application: Application, parameters: str
) -> None:
    with pytest.raises(ClientError, match="ValidationException"):
        start(emr, application, "one", sparkSubmitParameters=parameters)


def test_a_stopping_application_takes_no_job_run(
    emr: FakeEmrServerless, application: Application
) -> None:
    application.state = "STOPPING"
    with pytest.raises(ClientError, match="ConflictException"):
        start(emr, application, "one")


def test_a_longer_time_than_seven_days_is_refused(
    emr: FakeEmrServerless, application: Application
) -> None:
    with pytest.raises(ClientError, match="executionTimeoutMinutes"):
        emr.start_job_run(
            applicationId=application.id,
            clientToken="t",
            executionRoleArn=ROLE,
            jobDriver={"sparkSubmit": {"entryPoint": "s3://assets/job.py"}},
            executionTimeoutMinutes=10_081,
        )


def test_tasks_of_emr_serverless_find_and_stop_job_runs_page_by_page(
    emr: FakeEmrServerless, application: Application
) -> None:
    emr.page_size = 1
    runs = [
        start(emr, application, name_of(AttemptId("main#j", 1767323045000, n)), number=n)
        for n in range(4)
    ]
    emr.move(runs[2], "RUNNING")
    emr.end(runs[0], "FAILED", "gone")
    tasks = EmrJobRuns(emr, application.arn)

    assert {task.attempt.attempt for task in tasks.running()} == {1, 2, 3}
    assert not tasks.stop("", ATTEMPT, "stalled").is_gone
    assert [run.state for run in runs] == ["FAILED", "SUBMITTED", "CANCELLING", "SUBMITTED"]
    emr.end(runs[2], "CANCELLED")
    assert tasks.stop("", ATTEMPT, "stalled").is_gone
