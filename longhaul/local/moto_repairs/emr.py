"""Repairs of EMR Serverless."""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from datetime import UTC, datetime
from typing import Any

from moto.emrserverless.exceptions import ValidationException
from moto.emrserverless.models import Application, EMRServerlessBackend, emrserverless_backends
from moto.moto_api._internal import mock_random

from longhaul.local.emr_driver import EmrDriver, JobRunEnd, JobRunSpec
from longhaul.local.moto_repairs.patching import Made, Patches


def applications(patches: Patches) -> None:
    """A template can make applications of EMR Serverless.

    AWS: `AWS::EMRServerless::Application` makes an application of any release, with the attributes
    `Arn` and `ApplicationId`.

    Stock moto: CloudFormation does not know the type, and CreateApplication refuses every release
    but `emr-6.6.0`.
    """

    def make(name: str, properties: dict[str, Any], account: str, region: str) -> Made:
        application: Any = Application(
            name=properties.get("Name", name),
            release_label=properties["ReleaseLabel"],
            application_type=properties["Type"],
            client_token=mock_random.get_random_hex(32),
            account_id=account,
            region_name=region,
            initial_capacity={},  # type: ignore[arg-type]  # declared as str, used as a map
            maximum_capacity=properties.get("MaximumCapacity", {}),
            tags={},
            auto_start_configuration=properties.get("AutoStartConfiguration", {}),
            auto_stop_configuration=properties.get("AutoStopConfiguration", {}),
            network_configuration=properties.get("NetworkConfiguration"),
        )
        monitoring = properties.get("MonitoringConfiguration", {})
        # moto's applications have no logs; `_spec` reads those of job runs here.
        application.logging = monitoring.get("CloudWatchLoggingConfiguration", {})
        emrserverless_backends[account][region].applications[application.id] = application
        reference, arn = application.id, application.arn
        return Made("AWS::EMRServerless::Application", reference, Arn=arn, ApplicationId=reference)

    patches.add_type("AWS::EMRServerless::Application", make)


def job_runs(patches: Patches, driver: EmrDriver) -> None:
    """Job runs run.

    AWS: StartJobRun starts the Spark driver once per client token. GetJobRun and ListJobRuns report
    its state: SCHEDULED, RUNNING, then SUCCESS, or FAILED with the driver's exit code in the
    details. CancelJobRun ends a job run, and is refused after its end. An application without job
    runs has an empty list.

    Stock moto: starts nothing. Every job run is SUCCESS from the start, tokens are ignored, and a
    job run can become CANCELLED after its end. The list of an application without job runs is a
    ResourceNotFoundException.
    """
    stock_start = EMRServerlessBackend.start_job_run
    stock_list = EMRServerlessBackend.list_job_runs

    @patches.replacing(EMRServerlessBackend, "start_job_run")
    def start_job_run(
        backend: Any, application_id: str, client_token: str, *args: Any, **kwargs: Any
    ) -> Any:
        for started in backend.job_runs.get(application_id, []):
            if started.client_token == client_token:
                return started
        run = stock_start(backend, application_id, client_token, *args, **kwargs)
        run.state = "SCHEDULED"
        run.created_at = run.updated_at = datetime.now(UTC)
        driver.run(_spec(backend.get_application(application_id), run), _MotoJobRun(run))
        return run

    @patches.replacing(EMRServerlessBackend, "cancel_job_run")
    def cancel_job_run(backend: Any, application_id: str, job_run_id: str) -> tuple[str, str]:
        run = backend.get_job_run(application_id, job_run_id)
        if run.state in ("SUCCESS", "FAILED", "CANCELLED"):
            raise ValidationException(
                f"Job run {job_run_id} is in state {run.state} and cannot be cancelled"
            )
        run.state = "CANCELLING"
        driver.stop(run.arn, "cancelled")
        return application_id, job_run_id

    @patches.replacing(EMRServerlessBackend, "list_job_runs")
    def list_job_runs(backend: Any, application_id: str, *args: Any, **kwargs: Any) -> Any:
        backend.get_application(application_id)
        if application_id not in backend.job_runs:
            return []
        return stock_list(backend, application_id, *args, **kwargs)


class _MotoJobRun:
    """Copies a job run's start and end to moto's record of the job run."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def started(self, at: datetime) -> None:
        del at
        if self._run.state == "SCHEDULED":
            self._run.state = "RUNNING"

    def ended(self, end: JobRunEnd) -> None:
        self._run.state_details = end.details
        self._run.updated_at = datetime.now(UTC)
        # Last, so that a reader who sees the end sees the rest too.
        self._run.state = end.state


def _spec(application: Any, run: Any) -> JobRunSpec:
    submit = run.job_driver["sparkSubmit"]
    logging = getattr(application, "logging", {})
    return JobRunSpec(
        arn=run.arn,
        entry_point=submit["entryPoint"],
        arguments=tuple(submit.get("entryPointArguments", [])),
        parameters=submit.get("sparkSubmitParameters", ""),
        log_group=logging.get("LogGroupName"),
        log_prefix=logging.get("LogStreamNamePrefix", ""),
        role=run.execution_role_arn,
    )
