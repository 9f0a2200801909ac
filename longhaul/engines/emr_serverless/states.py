"""A job on EMR Serverless: one emr-serverless:startJobRun. Imports no CDK."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from longhaul.core.request import MAX_TIMEOUT_S
from longhaul.core.settings import SizeName
from longhaul.engines.emr_serverless.ends import EMR_SERVERLESS
from longhaul.engines.states import JobStates, run_job, when

# A last resort if nothing else ends the job run: what a job may take at most. It is also the most
# that EMR Serverless takes (7 days): with more, StartJobRun refuses each job. Its default is 12
# hours.
JOB_RUN_TIMEOUT_MINUTES: Final = MAX_TIMEOUT_S // 60


@dataclass(frozen=True, kw_only=True)
class EmrJobRun:
    """The parameters of emr-serverless:StartJobRun that do not depend on the job.

    `roles`: by stage, the ARN of the role of its job runs.
    """

    run: Mapping[str, object]
    roles: Mapping[str, str]
    # SparkSubmitParameters of every job, and those of the driver and the executors by size.
    spark: str
    workers: Mapping[SizeName, str]


def emr_states(emr: EmrJobRun, partition: str) -> JobStates:
    """The states of the engine: Workers ─► one Pass for each size ─► RunOnEmrServerless."""
    run = dict(emr.run)
    spark = (
        f"{emr.spark} {{}}"
        " --conf spark.emr-serverless.driverEnv.LONGHAUL_KEY={}"
        " --conf spark.emr-serverless.driverEnv.LONGHAUL_RUN={}"
        " --conf spark.emr-serverless.driverEnv.LONGHAUL_ATTEMPT={}"
    )
    parameters = {
        "ApplicationId": run["ApplicationId"],
        "ExecutionRoleArn.$": "$.rights.job_run_role",
        # One attempt has one execution and one job run, even if StartJobRun is repeated.
        "ClientToken.$": "$$.Execution.Name",
        # The form that `longhaul.engines.emr_serverless.ends` reads: the driver does not know
        # its id.
        "Name.$": "States.Format('{} {} {}', $.key, $.run, $.attempt)",
        "ExecutionTimeoutMinutes": JOB_RUN_TIMEOUT_MINUTES,
        "JobDriver": {
            "SparkSubmit": {
                "EntryPoint": run["EntryPoint"],
                "EntryPointArguments": run["EntryPointArguments"],
                "SparkSubmitParameters.$": (
                    f"States.Format('{spark}', $.workers, $.key, $.run, $.attempt)"
                ),
            }
        },
    }
    resource = f"arn:{partition}:states:::emr-serverless:startJobRun.sync"
    return JobStates(
        engine=EMR_SERVERLESS.name,
        start="Workers",
        states={
            # JSONPath has no map lookup: each size is a Pass state that adds its Spark parameters.
            "Workers": {
                "Type": "Choice",
                "Choices": when("$.size", {size: _workers(size) for size in emr.workers}),
                "Default": "UnknownSize",
            },
            "UnknownSize": {
                "Type": "Fail",
                "Error": "UnknownSize",
                "Cause": (
                    "The job was claimed with a size that this execution's definition does not"
                    " know."
                ),
            },
            **{
                _workers(size): {
                    "Type": "Pass",
                    "Result": words,
                    "ResultPath": "$.workers",
                    "Next": "RunOnEmrServerless",
                }
                for size, words in emr.workers.items()
            },
            "RunOnEmrServerless": run_job(resource, parameters),
        },
        rights={stage: {"job_run_role": role} for stage, role in emr.roles.items()},
    )


def _workers(size: str) -> str:
    return f"{size.capitalize()}Workers"
