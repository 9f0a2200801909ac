"""The engine beyond one machine: an EMR Serverless application, its job role, its driver."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from aws_cdk import Aws, IgnoreMode, Stack, Tags
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from longhaul.cdk import layer
from longhaul.cdk.data_bucket import DataBucket
from longhaul.cdk.functions import CORE_CODE
from longhaul.cdk.grants import allow, cancel_job_runs
from longhaul.cdk.roles import job_roles
from longhaul.config import requirements
from longhaul.config.errors import SettingsError
from longhaul.config.known import as_json, variables_of
from longhaul.config.project import Project
from longhaul.config.settings import Settings
from longhaul.config.sizes import Size
from longhaul.core.memory import heap_mib
from longhaul.engines.emr_serverless.ends import EMR_SERVERLESS
from longhaul.engines.emr_serverless.settings import EmrSettings
from longhaul.engines.emr_serverless.states import EmrJobRun, emr_states
from longhaul.engines.states import JobStates

# As `longhaul.engines.fargate.construct.SYNC_RULE`.
SYNC_RULE: Final = "StepFunctionsGetEventsForEMRServerlessJobRule"
ARCHITECTURE: Final = {"arm64": "ARM64", "x86_64": "X86_64"}
# Exclude everything, then include the Python files of the packages.
NOT_CODE: Final = ["*", "!longhaul/runner/**/*.py", "!longhaul/catalogue/**/*.py", *CORE_CODE]
# Of a project: all that its jobs may read beside them.
NOT_JOBS: Final = ["*", "!jobs", "**/__pycache__"]
# Folders into which EMR unpacks archives, in the working directory of driver and executors.
CODE: Final = "code"
PACKAGES: Final = "packages"
PROJECT: Final = "project"
PROJECT_PACKAGES: Final = "project-packages"
# EMR's maximum, and no sum of slots: with other slots CloudFormation would update the application,
# which fails while it is started. The slots bound the runs. More than 1,000 of them would wait in
# EMR's queue while their start timeout runs.
# https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_UpdateApplication.html
MAX_CONCURRENT_RUNS: Final = 1_000
# EMR's minimum. The lease's start timeout ends a waiting run much earlier.
QUEUE_TIMEOUT_MINUTES: Final = 15
# https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_SparkSubmit.html
MAX_ARGUMENT: Final = 10_280
# What CloudFormation fills in: names, ARNs and URLs.
_TOKEN: Final = re.compile(r"(\$\{Token\[[^]]+]\})")
# XML of a job's input fetches nothing: a document type may name a file or an address.
_NO_EXTERNAL_XML: Final = (
    "-Djavax.xml.accessExternalDTD=",
    "-Djavax.xml.accessExternalSchema=",
)


class EmrServerless(Construct):
    meaning = EMR_SERVERLESS

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        emr_settings: EmrSettings,
        repository: Path,
        project: Project | None,
        data: DataBucket,
        log_group: logs.ILogGroup,
    ) -> None:
        super().__init__(scope, id_)
        self._settings = settings
        self._max_executors = emr_settings.max_executors
        self.work_area = emr_settings.work_area or data.add_work_area()
        stack = Stack.of(self)
        self.application = emr.CfnApplication(
            self,
            "Application",
            name=settings.stack_name,
            type="SPARK",
            release_label=emr_settings.release_label,
            architecture=ARCHITECTURE[settings.architecture],
            # No initial capacity: an application without workers costs nothing.
            auto_start_configuration=emr.CfnApplication.AutoStartConfigurationProperty(
                enabled=True
            ),
            auto_stop_configuration=emr.CfnApplication.AutoStopConfigurationProperty(
                enabled=True, idle_timeout_minutes=emr_settings.idle_stop_minutes
            ),
            maximum_capacity=emr.CfnApplication.MaximumAllowedResourcesProperty(
                cpu=f"{emr_settings.max_vcpu} vCPU", memory=f"{emr_settings.max_memory_gib} GB"
            ),
            scheduler_configuration=emr.CfnApplication.SchedulerConfigurationProperty(
                max_concurrent_runs=MAX_CONCURRENT_RUNS,
                queue_timeout_minutes=QUEUE_TIMEOUT_MINUTES,
            ),
            monitoring_configuration=emr.CfnApplication.MonitoringConfigurationProperty(
                cloud_watch_logging_configuration=emr.CfnApplication.CloudWatchLoggingConfigurationProperty(
                    enabled=True,
                    log_group_name=log_group.log_group_name,
                    log_stream_name_prefix="emr",
                ),
                # The logs are in the group above alone, with its retention.
                managed_persistence_monitoring_configuration=emr.CfnApplication.ManagedPersistenceMonitoringConfigurationProperty(
                    enabled=False
                ),
            ),
            # Here, and not in each job run's parameters, which EMR splits at spaces.
            runtime_configuration=[
                emr.CfnApplication.ConfigurationObjectProperty(
                    classification="spark-defaults",
                    properties={
                        f"spark.{part}.extraJavaOptions": " ".join(_NO_EXTERNAL_XML)
                        for part in ("driver", "executor")
                    },
                )
            ],
            # No network configuration: workers then reach only S3, DynamoDB and CloudWatch Logs of
            # their region.
        )
        # For Cost Explorer. Job runs have none: AWS bills the application, unless it has job level
        # cost allocation, which CloudFormation cannot set.
        # https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_JobLevelCostAllocationConfiguration.html
        Tags.of(self.application).add("longhaul:stack", settings.stack_name)
        applications = stack.format_arn(
            service="emr-serverless", resource="/applications", resource_name="*"
        )
        self.job_roles: Mapping[str, iam.IRole] = job_roles(
            self,
            "JobRole",
            settings,
            what="a job on EMR Serverless",
            # Any application of this account: the role must exist before job runs name it.
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
        # The functions' packages, with all services of boto3: a job may call any.
        if stack.bundling_required:
            packages = layer.archive(repository, settings.architecture)
        else:
            packages = layer.lock(repository)
        self._packages = s3_assets.Asset(self, "Packages", path=str(packages))
        self._project = self._project_archives(project, repository) if project else {}
        self._entry = s3_assets.Asset(
            self, "Entry", path=str(repository / "longhaul/engines/emr_serverless/runner.py")
        )
        for role in self.job_roles.values():
            self._grant_driver(role, log_group)

    def configure(self, runtime_settings: str) -> None:
        self._runtime_settings = runtime_settings

    def states(self) -> JobStates:
        job_run = EmrJobRun(
            run={
                "ApplicationId": self.application.attr_application_id,
                "EntryPoint": self._entry.s3_object_url,
                "EntryPointArguments": self._arguments(),
            },
            roles={stage: role.role_arn for stage, role in self.job_roles.items()},
            spark=self._spark_parameters(),
            workers={
                name: _worker_parameters(size)
                for name, size in self._settings.sizes.by_name().items()
            },
        )
        return emr_states(job_run, Stack.of(self).partition)

    def _arguments(self) -> list[str]:
        """Of the driver: the settings, and the variables of all stages if there are any."""
        arguments = [_percent_encoded(self._runtime_settings)]
        if variables := variables_of(self._settings.stages):
            arguments.append(_percent_encoded(as_json(variables)))
            if (length := len(arguments[-1])) > MAX_ARGUMENT:
                raise SettingsError(
                    f"{self.node.path}: environment and secrets of all stages have {length:,} "
                    f"characters, escaped, and an argument of a job run has {MAX_ARGUMENT:,}; "
                    "use fewer or shorter ones"
                )
        return arguments

    def grant_running(self, machine: iam.Role) -> None:
        # https://docs.aws.amazon.com/step-functions/latest/dg/emr-serverless-iam.html
        arn = self.application.attr_arn
        allow(machine, "RunTheJobOnEmr", ["emr-serverless:StartJobRun"], [arn])
        allow(
            machine,
            "FollowTheJobRun",
            ["emr-serverless:GetJobRun", "emr-serverless:CancelJobRun"],
            [self.job_runs],
            wildcards="A job run's id is known only once it runs; the application is ours alone.",
        )
        rule = Stack.of(self).format_arn(service="events", resource="rule", resource_name=SYNC_RULE)
        actions = ["events:PutTargets", "events:PutRule", "events:DescribeRule"]
        allow(machine, "HearOfTheJobRunsEnd", actions, [rule])
        allow(
            machine,
            "LendTheJobRole",
            ["iam:PassRole"],
            [role.role_arn for role in self.job_roles.values()],
            conditions={"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}},
        )

    def grant_stopping(self, role: iam.IRole) -> None:
        cancel_job_runs(role, self.application.attr_arn, self.job_runs)

    def grant_finding(self, role: iam.IRole) -> None:
        """Nothing more: who may cancel a job run may list it, because its id is not known."""

    def _spark_parameters(self) -> str:
        python = f"python{layer.PYTHON_VERSION}"
        folders = {CODE: self._code, PACKAGES: self._packages, **self._project}
        path = f"./{CODE}:./{PACKAGES}/python"
        # Nothing says that EMR sets it, and without one boto3 makes no client.
        region = Stack.of(self).region
        jobs: dict[str, str] = {}
        if self._project:
            path = f"{path}:./{PROJECT}/jobs:./{PROJECT_PACKAGES}"
            jobs = {"spark.emr-serverless.driverEnv.LONGHAUL_JOBS": f"./{PROJECT}/jobs"}
        return _confs(
            {
                "spark.archives": ",".join(
                    f"{asset.s3_object_url}#{name}" for name, asset in folders.items()
                ),
                **jobs,
                "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": python,
                "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": python,
                "spark.emr-serverless.driverEnv.PYTHONPATH": path,
                "spark.emr-serverless.driverEnv.AWS_DEFAULT_REGION": region,
                "spark.executorEnv.AWS_DEFAULT_REGION": region,
                "spark.executorEnv.PYSPARK_PYTHON": python,
                "spark.executorEnv.PYTHONPATH": path,
                "spark.dynamicAllocation.maxExecutors": str(self._max_executors),
            }
        )

    def _project_archives(self, project: Project, repository: Path) -> dict[str, s3_assets.Asset]:
        architecture = self._settings.architecture
        target = project.work_dir / f"packages-{architecture}"
        wheels = ["--only-binary=:all:", *layer.platforms(architecture)]
        requirements.install(project.requirements, target, repository, wheels)
        jobs = s3_assets.Asset(
            self,
            "ProjectJobs",
            path=str(project.folder),
            exclude=NOT_JOBS,
            ignore_mode=IgnoreMode.DOCKER,
        )
        packages = s3_assets.Asset(self, "ProjectPackages", path=str(target))
        return {PROJECT: jobs, PROJECT_PACKAGES: packages}

    def _prefix_of_assets(self) -> str:
        folder, slash, _ = self._entry.s3_object_key.rpartition("/")
        if not slash:
            raise SettingsError(
                f"{self.node.path}: emr_serverless needs a stack with a prefix of its own in the "
                "account's bucket of assets, below which its jobs may read: Stack(…, synthesizer="
                "DefaultStackSynthesizer(bucket_prefix='…/'))"
            )
        return folder + slash

    @property
    def job_runs(self) -> str:
        """The ARN pattern of every job run of the application."""
        return f"{self.application.attr_arn}/jobruns/*"

    def _grant_driver(self, role: iam.IRole, log_group: logs.ILogGroup) -> None:
        allow(
            role,
            "FetchItself",
            ["s3:GetObject"],
            # Not `Asset.grant_read`, which grants the whole bucket of the account's assets, and not
            # the three objects: after a deploy those have other keys, and jobs that run would lose
            # the right to fetch theirs, for executors that come later.
            [self._entry.bucket.arn_for_objects(f"{self._prefix_of_assets()}*")],
            wildcards="The code of this version and of those before: jobs run across a deploy.",
        )
        self._grant_decrypting(role)
        log_groups = Stack.of(self).format_arn(service="logs", resource="*")
        allow(
            role,
            "FindItsLog",
            ["logs:DescribeLogGroups"],
            [log_groups],
            wildcards="EMR lists the account's log groups to find ours; it sees names.",
        )
        allow(
            role,
            "WriteItsLog",
            ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            [log_group.log_group_arn],
            wildcards="The streams of one log group, whose ARN ends so.",
        )

    def _grant_decrypting(self, role: iam.IRole) -> None:
        """Let drivers decrypt their code, where the bootstrap has a key of the customer's.

        Not `Fn::ImportValue` of the key that the bootstrap's stack exports: without such a key that
        is a word and no ARN, which a policy refuses, and no condition of a template can ask. So
        the objects are named instead, which S3 gives KMS as the encryption context: the bucket's
        ARN where it has a bucket key, and else the object's.
        https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
        """
        stack, bucket = Stack.of(self), self._entry.bucket
        code = [bucket.bucket_arn, bucket.arn_for_objects(f"{self._prefix_of_assets()}*")]
        allow(
            role,
            "DecryptItself",
            ["kms:Decrypt"],
            [stack.format_arn(service="kms", account="*", resource="key", resource_name="*")],
            conditions={
                "StringEquals": {"kms:ViaService": f"s3.{stack.region}.{stack.url_suffix}"},
                "StringLike": {"kms:EncryptionContext:aws:s3:arn": code},
            },
            wildcards=(
                "The bootstrap's key is not known at synth; the condition names the objects for "
                "which it is used."
            ),
        )


def _worker_parameters(size: Size) -> str:
    # The driver and each executor get the whole size.
    heap = heap_mib(size.memory_mib)
    # EMR adds this share of the heap. Rounded down: the sum must not exceed the size.
    overhead = int((size.memory_mib - heap) / heap * 100) / 100
    parts = ("driver", "executor")
    return _confs(
        {
            **{f"spark.{part}.cores": str(size.cpu // 1024) for part in parts},
            **{f"spark.{part}.memory": f"{heap}m" for part in parts},
            **{f"spark.emr-serverless.{part}.disk": f"{size.disk_gib}G" for part in parts},
            "spark.emr-serverless.memoryOverheadFactor": f"{overhead:.2f}",
        }
    )


def _percent_encoded(settings: str) -> str:
    """The settings as an argument without quotes, braces and spaces; the driver decodes it.

    EMR splits SparkSubmitParameters at spaces, and does not say what it does with quotes in an
    argument. Not Fn::Base64: within the definition's JSON the CDK escapes the literals of an
    intrinsic function, before CloudFormation would encode them.
    """
    parts = _TOKEN.split(settings)  # tokens are every second part
    parts[::2] = [quote(part, safe=":,/") for part in parts[::2]]
    return "".join(parts)


def _confs(options: Mapping[str, str]) -> str:
    return " ".join(f"--conf {name}={value}" for name, value in options.items())
