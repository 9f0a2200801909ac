"""The engine beyond one machine: an EMR Serverless application, what a job may do there, and what its driver is made of."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from aws_cdk import Aws, IgnoreMode, Stack
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from infra.emr_settings import EmrDeployment
from infra.grants import allow
from infra.layer import PYTHON_VERSION
from infra.settings import Settings, Size
from longhaul.memory import heap_mib
from longhaul.settings import SizeName

ARCHITECTURE: Final = {"arm64": "ARM64", "x86_64": "X86_64"}
# Everything out, then the two packages' Python files in again.
NOT_CODE: Final = ["*", "!jobs/**/*.py", "!longhaul/**/*.py"]
# What EMR unpacks into the working directory of driver and executors, by the names of the folders.
CODE: Final = "code"
PACKAGES: Final = "packages"
# Fewer than all slots would make jobs wait in EMR's queue, where nobody extends their start; EMR allows no more.
MAX_CONCURRENT_RUNS: Final = 1_000
# The least that EMR allows. A run that waits for so long is given up by the lease's start_timeout long before.
QUEUE_TIMEOUT_MINUTES: Final = 15


class EmrServerless(Construct):
    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        emr_settings: EmrDeployment,
        repository: Path,
        packages: Path,
        log_group: logs.ILogGroup,
    ) -> None:
        """`packages` is the folder of the functions' layer: driver and functions import the same pinned packages."""
        super().__init__(scope, id_)
        self._settings = settings
        self._emr = emr_settings
        stack = Stack.of(self)
        self.application = emr.CfnApplication(
            self,
            "Application",
            name=settings.stack_name,
            type="SPARK",
            release_label=emr_settings.release_label,
            architecture=ARCHITECTURE[settings.architecture],
            # No initial capacity: workers cost from their start to their end, and an application without any costs nothing.
            auto_start_configuration=emr.CfnApplication.AutoStartConfigurationProperty(enabled=True),
            auto_stop_configuration=emr.CfnApplication.AutoStopConfigurationProperty(
                enabled=True, idle_timeout_minutes=emr_settings.idle_stop_minutes
            ),
            maximum_capacity=emr.CfnApplication.MaximumAllowedResourcesProperty(
                cpu=f"{emr_settings.max_vcpu} vCPU", memory=f"{emr_settings.max_memory_gib} GB"
            ),
            scheduler_configuration=emr.CfnApplication.SchedulerConfigurationProperty(
                max_concurrent_runs=min(MAX_CONCURRENT_RUNS, sum(stage.slots for stage in settings.stages)),
                queue_timeout_minutes=QUEUE_TIMEOUT_MINUTES,
            ),
            monitoring_configuration=emr.CfnApplication.MonitoringConfigurationProperty(
                cloud_watch_logging_configuration=emr.CfnApplication.CloudWatchLoggingConfigurationProperty(
                    enabled=True, log_group_name=log_group.log_group_name, log_stream_name_prefix="emr"
                ),
                # The logs are in the group above, with its retention, and nowhere else.
                managed_persistence_monitoring_configuration=emr.CfnApplication.ManagedPersistenceMonitoringConfigurationProperty(
                    enabled=False
                ),
            ),
            # No network configuration: without one a worker reaches S3, DynamoDB and CloudWatch Logs of its region, and nothing else.
        )
        applications = stack.format_arn(service="emr-serverless", resource="/applications", resource_name="*")
        self.job_role = iam.Role(
            self,
            "JobRole",
            description="What a job on EMR Serverless may do",
            # Any application of this account: the role is named by what runs on ours, and must be there before it.
            assumed_by=iam.ServicePrincipal(
                "emr-serverless.amazonaws.com",
                conditions={
                    "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
                    "ArnLike": {"aws:SourceArn": applications},
                },
            ),
        )
        self._code = s3_assets.Asset(
            self, "Code", path=str(repository), exclude=NOT_CODE, ignore_mode=IgnoreMode.DOCKER
        )
        self._packages = s3_assets.Asset(self, "Packages", path=str(packages))
        self._entry = s3_assets.Asset(self, "Entry", path=str(repository / "jobs" / "emr_runner.py"))
        self._grant_driver(log_group)

    def run(self, runtime_settings: Mapping[str, object]) -> dict[str, object]:
        """Parameters of emr-serverless:StartJobRun that are the same for all jobs."""
        return {
            "ApplicationId": self.application.attr_application_id,
            "ExecutionRoleArn": self.job_role.role_arn,
            "EntryPoint": self._entry.s3_object_url,
            # As an argument, which EMR hands over as it is; what is in SparkSubmitParameters it takes apart at spaces.
            "EntryPointArguments": [Stack.of(self).to_json_string(runtime_settings)],
        }

    def spark_parameters(self) -> str:
        """The part of SparkSubmitParameters that is the same for all jobs."""
        python = f"python{PYTHON_VERSION}"
        path = f"./{CODE}:./{PACKAGES}/python"
        archives = f"{self._code.s3_object_url}#{CODE},{self._packages.s3_object_url}#{PACKAGES}"
        return _confs(
            {
                "spark.archives": archives,
                "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": python,
                "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": python,
                "spark.emr-serverless.driverEnv.PYTHONPATH": path,
                "spark.executorEnv.PYSPARK_PYTHON": python,
                "spark.executorEnv.PYTHONPATH": path,
                "spark.dynamicAllocation.maxExecutors": str(self._emr.max_executors),
            }
        )

    def worker_parameters(self) -> Mapping[SizeName, str]:
        """The part of SparkSubmitParameters that says what each size gets: the driver, and each executor."""
        return {name: _worker(size) for name, size in self._settings.sizes.by_name().items()}

    @property
    def job_runs(self) -> str:
        """The ARN pattern of every job run of the application."""
        return f"{self.application.attr_arn}/jobruns/*"

    def _grant_driver(self, log_group: logs.ILogGroup) -> None:
        assets = (self._entry, self._code, self._packages)
        allow(
            self.job_role,
            "FetchItself",
            ["s3:GetObject"],
            # Not `Asset.grant_read`, which opens the whole bucket of the account's assets.
            [asset.bucket.arn_for_objects(asset.s3_object_key) for asset in assets],
        )
        log_groups = Stack.of(self).format_arn(service="logs", resource="*")
        allow(
            self.job_role,
            "FindItsLog",
            ["logs:DescribeLogGroups"],
            [log_groups],
            wildcards="EMR lists the account's log groups to find ours; it sees names.",
        )
        allow(
            self.job_role,
            "WriteItsLog",
            ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            [log_group.log_group_arn],
            wildcards="The streams of one log group, whose ARN ends so.",
        )


def _worker(size: Size) -> str:
    heap = heap_mib(size.memory_mib)
    # EMR adds this share of the heap; rounded down, so that the sum is not more than the size says.
    overhead = int((size.memory_mib - heap) / heap * 100) / 100
    parts: Sequence[str] = ("driver", "executor")
    return _confs(
        {
            **{f"spark.{part}.cores": str(size.cpu // 1024) for part in parts},
            **{f"spark.{part}.memory": f"{heap}m" for part in parts},
            **{f"spark.emr-serverless.{part}.disk": f"{size.disk_gib}G" for part in parts},
            "spark.emr-serverless.memoryOverheadFactor": f"{overhead:.2f}",
        }
    )


def _confs(options: Mapping[str, str]) -> str:
    return " ".join(f"--conf {name}={value}" for name, value in options.items())
