"""The one stack, as a table of contents: its parts, and what each may do."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from aws_cdk import CfnOutput, DefaultStackSynthesizer, Duration, Environment, Stack
from aws_cdk import aws_s3 as s3
from constructs import Construct

from longhaul.cdk import deployed, grants
from longhaul.cdk.alarms import Alarms
from longhaul.cdk.dashboard import Dashboard
from longhaul.cdk.data_bucket import DataBucket
from longhaul.cdk.functions import PythonFunction, SharedCode
from longhaul.cdk.leases import Leases
from longhaul.cdk.network import Network
from longhaul.cdk.queues import StageQueues
from longhaul.cdk.scheduling import Scheduling
from longhaul.cdk.sweeping import Sweeping
from longhaul.cdk.tables import TableDatabases
from longhaul.cdk.triggers import Triggers
from longhaul.cdk.workflow import Workflow
from longhaul.config.project import Project
from longhaul.config.settings import Settings, code_prefix
from longhaul.config.stages import pascal, queue_prefix
from longhaul.config.version import version
from longhaul.domain.lease import JOINED_PREFIX, REQUESTS_PREFIX
from longhaul.engines.aws_lambda.construct import LambdaJobs
from longhaul.engines.emr_serverless.construct import EmrServerless
from longhaul.engines.fargate.construct import SparkRuntime

if TYPE_CHECKING:
    from longhaul.engines.construct import EngineConstruct

# A batch takes a fraction of a second, and longer where an ended job's output is yet to be
# published. Must be below the queue's visibility (120 s).
DISPATCHER_TIMEOUT: Final = Duration.seconds(75)
# A beat is four small calls. One that needs longer is better skipped than late.
HEARTBEAT_TIMEOUT: Final = Duration.seconds(30)
# Lambda's maximum: a settle may have to publish thousands of files. What it does not finish stays
# owed, and the sweeper continues it.
SETTLE_TIMEOUT: Final = Duration.seconds(900)
# One sweep starts every five minutes: two never overlap for long.
SWEEPER_TIMEOUT: Final = Duration.seconds(300)


class LonghaulStack(Stack):
    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        repository: Path,
        project: Project | None,
        env: Environment,
    ) -> None:
        """`project`: whose jobs are deployed; None for the catalogue of the checkout."""
        super().__init__(
            scope,
            id_,
            env=env,
            description="Longhaul: PySpark jobs of any length from an SQS queue",
            # `python app.py` and `cdk synth` must give the same template.
            analytics_reporting=False,
            # Running jobs fetch code below the prefix across a deploy
            # (`longhaul.engines.emr_serverless`).
            synthesizer=DefaultStackSynthesizer(bucket_prefix=code_prefix(settings.stack_name)),
        )
        self._settings = settings
        name = settings.stack_name
        self._queues = {
            stage.name: StageQueues(
                self, f"{pascal(stage.name)}Queue", prefix=queue_prefix(name, stage)
            )
            for stage in settings.stages
        }
        self._leases = Leases(self, "Leases")
        self._data = DataBucket(self, "Data", settings=settings)
        self._databases = TableDatabases(self, "Tables", settings=settings, data=self._data)
        self._spark = SparkRuntime(
            self,
            "Spark",
            settings=settings,
            repository=repository,
            project=project,
            network=Network(self, "Network", settings=settings),
        )
        self._shared = SharedCode(self, "Shared", repository=repository, settings=settings)
        self._emr = self._emr_serverless(repository, project)
        # The first is the default.
        others = [engine for engine in (self._lambda_jobs(), self._emr) if engine]
        self._engines: list[EngineConstruct] = [self._spark, *others]
        self._runtime_settings = deployed.runtime_settings(
            settings=settings,
            jobs=project.job_names if project else deployed.catalogue(repository),
            queues=self._queues,
            leases=self._leases,
            data=self._data,
            spark=self._spark,
            emr=self._emr,
        )
        for engine in self._engines:
            engine.configure(self._runtime_settings)
        heartbeat = self._function(
            "heartbeat",
            "Extends a running job's lease",
            HEARTBEAT_TIMEOUT,
            memory_mib=512,
            sends_jobs=False,
        )
        settle = self._function("settle", "Completes or releases a job", SETTLE_TIMEOUT)
        self._workflow = Workflow(
            self,
            "Workflow",
            settings=settings,
            engines=self._engines,
            heartbeat=heartbeat,
            settle=settle,
        )
        dispatcher = self._function(
            "dispatcher", "Claims leases and starts their executions", DISPATCHER_TIMEOUT
        )
        for stage in settings.stages:
            dispatcher.receive_from(f"{pascal(stage.name)}Jobs", self._queues[stage.name].jobs)
        sweeper = self._function(
            "sweeper", "Repairs what a lost event or a crash left", SWEEPER_TIMEOUT
        )
        sweeping = Sweeping(self, "Sweeping", sweeper=sweeper, machine=self._workflow.machine)
        scheduling = Scheduling(
            self,
            "Scheduling",
            stack_name=name,
            stages=settings.stages,
            queues=self._queues,
            data_bucket=self._data.bucket_name,
        )
        Triggers(
            self,
            "Triggers",
            stages=settings.stages,
            queues=self._queues,
            undelivered=scheduling.undelivered,
            data=self._data,
        )
        alarms = Alarms(
            self,
            "Alarms",
            settings=settings,
            queues=self._queues,
            undelivered={"rules": sweeping.undelivered, "schedules": scheduling.undelivered},
        )
        Dashboard(self, "Dashboard", name=name, stages=settings.stages, alarms=alarms.all)
        self._grant(dispatcher=dispatcher, heartbeat=heartbeat, settle=settle, sweeper=sweeper)
        self._output(alarms=alarms, scheduling=scheduling)

    def _lambda_jobs(self) -> LambdaJobs | None:
        tiny = self._settings.sizes.tiny
        if tiny is None:
            return None
        return LambdaJobs(
            self,
            "Lambda",
            settings=self._settings,
            tiny=tiny,
            image=self._spark.image,
            log_group=self._spark.log_group,
        )

    def _emr_serverless(self, repository: Path, project: Project | None) -> EmrServerless | None:
        if self._settings.emr_serverless is None:
            return None
        return EmrServerless(
            self,
            "EmrServerless",
            settings=self._settings,
            emr_settings=self._settings.emr_serverless,
            repository=repository,
            project=project,
            data=self._data,
            log_group=self._spark.log_group,
        )

    def _function(
        self,
        name: str,
        description: str,
        timeout: Duration,
        *,
        memory_mib: int = 1024,
        sends_jobs: bool = True,
    ) -> PythonFunction:
        return PythonFunction(
            self,
            name.capitalize(),
            name=name,
            description=description,
            shared=self._shared,
            settings=self._settings,
            runtime_settings=self._runtime_settings,
            timeout=timeout,
            memory_mib=memory_mib,
            sends_jobs=sends_jobs,
        )

    def _grant(
        self,
        *,
        dispatcher: PythonFunction,
        heartbeat: PythonFunction,
        settle: PythonFunction,
        sweeper: PythonFunction,
    ) -> None:
        queues = list(self._queues.values())
        table = self._leases.table
        machine = self._workflow.machine
        inputs = [self._bucket("In", name) for name in self._settings.input_buckets]
        outputs = [
            self._data,
            *(self._bucket("Out", name) for name in self._settings.output_buckets),
        ]
        settings = self._settings
        input_keys = settings.keys_of((*settings.input_buckets, *settings.code_buckets))
        own_key = [settings.kms_key] if settings.kms_key else []
        output_keys = [*own_key, *settings.keys_of(settings.output_buckets)]

        code = [self._data.absolute(prefix) for prefix in settings.job_prefixes]
        # What a job is asked to do: functions write it, and a lifecycle rule deletes it.
        asked = [self._data.absolute(prefix) for prefix in (REQUESTS_PREFIX, JOINED_PREFIX)]
        grants.beat_leases(heartbeat.execution_role, table, self._queues)
        grants.extend_messages(heartbeat.execution_role, queues)

        # Each of the three finishes a row that owes something: it publishes, sends, dead-letters,
        # deletes, and stops a task that still runs.
        for function in (dispatcher, settle, sweeper):
            role = function.execution_role
            grants.hold_leases(role, table)
            grants.join_leases(role, table)
            grants.finish_messages(role, queues)
            grants.notify(role, (stage.notify for stage in settings.stages if stage.notify))
            grants.write_objects(role, outputs, never=code, kept=asked)
            grants.use_keys(role, read=(), write=output_keys)
            grants.write_tables(role, self._databases.names)
            for engine in self._engines:
                engine.grant_stopping(role)

        grants.receive_jobs(dispatcher.execution_role, queues)
        for function in (dispatcher, sweeper):
            grants.survey_leases(function.execution_role, table)
            grants.start_executions(function.execution_role, machine)
            grants.describe_executions(function.execution_role, machine)
            grants.find_open_leases(function.execution_role, table)
        grants.count_messages(sweeper.execution_role, queues)
        for engine in self._engines:
            engine.grant_finding(sweeper.execution_role)

        # A job does the same on every engine.
        for engine in self._engines:
            role = engine.job_role
            grants.report_to_leases(role, table, self._queues)
            grants.read_objects(role, inputs)
            grants.write_objects(role, outputs, never=[*code, *asked])
            grants.use_keys(role, read=input_keys, write=output_keys)
            grants.read_code(role, code)
            if engine.meaning.has_tables:
                grants.write_tables(role, self._databases.names)

    def _bucket(self, prefix: str, name: str) -> s3.IBucket:
        return s3.Bucket.from_bucket_name(self, f"{prefix}-{name}", name)

    def _output(self, *, alarms: Alarms, scheduling: Scheduling) -> None:
        # The first stage's outputs have no prefix.
        prefixes = ["", *(pascal(name) for name in list(self._queues)[1:])]
        for prefix, queues in zip(prefixes, self._queues.values(), strict=True):
            CfnOutput(self, f"{prefix or 'Jobs'}QueueUrl", value=queues.jobs.queue_url)
            CfnOutput(self, f"{prefix}DeadLetterQueueUrl", value=queues.dead_letters.queue_url)
        CfnOutput(self, "LeasesTableName", value=self._leases.table.table_name)
        CfnOutput(self, "StateMachineArn", value=self._workflow.machine.state_machine_arn)
        CfnOutput(self, "DataBucketName", value=self._data.bucket_name)
        CfnOutput(self, "LonghaulVersion", value=version())
        CfnOutput(self, "AlarmsTopicArn", value=alarms.topic.topic_arn)
        for prefix, role in zip(prefixes, scheduling.roles.values(), strict=True):
            CfnOutput(self, f"{prefix}SchedulerRoleArn", value=role.role_arn)
