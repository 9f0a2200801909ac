"""The one stack, as a table of contents: its parts, what they know of each other, and who may do what."""

import json
from pathlib import Path
from typing import Final

from aws_cdk import CfnOutput, Duration, Environment, Stack
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra import grants
from infra.alarms import Alarms
from infra.catalogue import catalogue
from infra.dashboard import Dashboard
from infra.data_bucket import DataBucket
from infra.emr_serverless import EmrServerless
from infra.firing import DATA_BUCKET, EXAMPLES
from infra.functions import PythonFunction, SharedCode
from infra.job_queue import JobQueue
from infra.leases import Leases
from infra.network import Network
from infra.scheduling import Scheduling
from infra.settings import CONTEXT_KEY, Settings, SettingsError, pascal, queue_prefix
from infra.spark_runtime import SparkRuntime
from infra.sweeping import Sweeping
from infra.workflow import Workflow, machine_arn, tasks_of
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.request import parse_request
from longhaul.settings import EmrApplication, PathPolicy, RuntimeSettings, Stage, StageSettings, TaskSettings, TaskSize

# Waits up to 50 s for a slot; must stay below the queue's visibility (120 s).
DISPATCHER_TIMEOUT: Final = Duration.seconds(75)
# Four small calls. A beat that needs longer is better skipped than late.
HEARTBEAT_TIMEOUT: Final = Duration.seconds(30)
# Lambda's maximum: a settle may have to publish thousands of files. What it does not finish stays owed, and the sweeper goes on.
SETTLE_TIMEOUT: Final = Duration.seconds(900)
# Two sweeps never overlap for long: one starts every five minutes.
SWEEPER_TIMEOUT: Final = Duration.seconds(300)


class LonghaulStack(Stack):
    def __init__(self, scope: Construct, id_: str, *, settings: Settings, repository: Path, env: Environment) -> None:
        super().__init__(
            scope,
            id_,
            env=env,
            description="Longhaul: PySpark jobs of any length from an SQS queue",
            # `python app.py` and `cdk synth` must give the same template.
            analytics_reporting=False,
        )
        self._settings = settings
        self._queues = {
            stage.name: JobQueue(self, f"{pascal(stage.name)}Queue", name=queue_prefix(settings.stack_name, stage.name))
            for stage in settings.stages
        }
        self._leases = Leases(self, "Leases")
        self._data = DataBucket(self, "Data")
        self._runtime = SparkRuntime(self, "Spark", settings=settings, repository=repository)
        self._shared = SharedCode(self, "Shared", repository=repository, settings=settings)
        self._emr = self._emr_serverless(repository)
        self._known = self._runtime_settings(repository)
        self._runtime.add_task_definitions(self._known)

        heartbeat = self._function("heartbeat", "Extends a running job's lease", HEARTBEAT_TIMEOUT, memory_mib=512)
        settle = self._function("settle", "Completes or releases a job", SETTLE_TIMEOUT)
        self._workflow = Workflow(
            self,
            "Workflow",
            settings=settings,
            runtime=self._runtime,
            emr=self._emr,
            runtime_settings=self._known,
            network=Network(self, "Network", network=settings.network),
            heartbeat=heartbeat,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            settle=settle,
            settle_timeout=SETTLE_TIMEOUT,
        )
        dispatcher = self._function("dispatcher", "Claims leases and starts their executions", DISPATCHER_TIMEOUT)
        sweeper = self._function("sweeper", "Repairs what a lost event or a crash left", SWEEPER_TIMEOUT)
        self._sweeping = Sweeping(self, "Sweeping", sweeper=sweeper, machine=self._workflow.machine)
        self._scheduling = Scheduling(
            self,
            "Scheduling",
            stack_name=settings.stack_name,
            stages=settings.stages,
            jobs={name: queue.jobs for name, queue in self._queues.items()},
            data_bucket=self._data.bucket_name,
        )
        self._alarms = self._watch()
        self._feed(dispatcher)
        self._grant(dispatcher=dispatcher, heartbeat=heartbeat, settle=settle, sweeper=sweeper)
        self._output()

    def _emr_serverless(self, repository: Path) -> EmrServerless | None:
        if self._settings.emr_serverless is None:
            return None
        return EmrServerless(
            self,
            "EmrServerless",
            settings=self._settings,
            emr_settings=self._settings.emr_serverless,
            repository=repository,
            packages=self._shared.packages,
            log_group=self._runtime.logs,
        )

    def _emr_known(self) -> EmrApplication | None:
        if self._emr is None or self._settings.emr_serverless is None:
            return None
        return EmrApplication(
            application_arn=self._emr.application.attr_arn,
            work_area=self._settings.emr_serverless.work_area or self._data.add_work_area(),
        )

    def _runtime_settings(self, repository: Path) -> dict[str, object]:
        """What every function and task knows of the deployment, as JSON of `RuntimeSettings`."""
        settings = self._settings
        jobs = catalogue(repository)
        for stage in settings.stages:
            if stage.job is not None and stage.job not in jobs:
                raise SettingsError(
                    f"{CONTEXT_KEY}.stages: {stage.name} has the job {stage.job!r}, which is not in jobs/catalogue; there are: {', '.join(jobs)}"
                )
        known = RuntimeSettings(
            leases_table=self._leases.table.table_name,
            stages=tuple(
                Stage(
                    **stage.model_dump(include=set(StageSettings.model_fields)),
                    queue_url=self._queues[stage.name].jobs.queue_url,
                    dead_letter_queue_url=self._queues[stage.name].dead_letters.queue_url,
                )
                for stage in settings.stages
            ),
            paths=PathPolicy(
                data_bucket=self._data.bucket_name,
                input_buckets=settings.input_buckets,
                output_buckets=settings.output_buckets,
                job_prefixes=self._job_prefixes(),
                allow_file=settings.allow_file_paths,
            ),
            jobs=jobs,
            lease=settings.lease,
            tasks=TaskSettings(
                architecture=settings.architecture,
                public_ip=settings.network.assign_public_ip,
                sizes={name: TaskSize(**size.model_dump()) for name, size in settings.sizes.by_name().items()},
            ),
            state_machine_arn=machine_arn(self, settings),
            cluster_arn=self._runtime.cluster.attr_arn,
            job_log_group=self._runtime.logs.log_group_name,
            emr_serverless=self._emr_known(),
            metrics_namespace=settings.stack_name,
        )
        self._check_schedules(known)
        # Without what is as usual: a Lambda's whole environment may hold 4 KiB.
        return known.model_dump(mode="json", exclude_defaults=True)

    def _check_schedules(self, known: RuntimeSettings) -> None:
        """Have the dispatcher's own parser read what each schedule will send.

        Raises:
            SettingsError: a firing would be dead-lettered.
        """
        # The bucket has its name only at deployment.
        paths = known.paths.model_copy(update={"data_bucket": EXAMPLES[DATA_BUCKET]})
        known = known.model_copy(update={"paths": paths})
        for n, stage in enumerate(self._settings.stages):
            if stage.schedule:
                try:
                    parse_request(json.dumps(stage.schedule.example()), known, known.stage(stage.name))
                except InvalidRequestError as error:
                    raise SettingsError(f"{CONTEXT_KEY}.stages.{n}.schedule.request: {error}") from error

    def _function(self, name: str, description: str, timeout: Duration, *, memory_mib: int = 1024) -> PythonFunction:
        return PythonFunction(
            self,
            name.capitalize(),
            name=name,
            description=description,
            shared=self._shared,
            settings=self._settings,
            runtime_settings=self._known,
            timeout=timeout,
            memory_mib=memory_mib,
        )

    def _watch(self) -> Alarms:
        name = self._settings.stack_name
        alarms = Alarms(
            self,
            "Alarms",
            namespace=name,
            stages=self._settings.stages,
            jobs={stage: queue.jobs for stage, queue in self._queues.items()},
            dead_letters={stage: queue.dead_letters for stage, queue in self._queues.items()},
            undelivered={"rules": self._sweeping.undelivered, "schedules": self._scheduling.undelivered},
        )
        stages = [stage.name for stage in self._settings.stages]
        Dashboard(self, "Dashboard", name=name, stages=stages, alarms=alarms.all)
        return alarms

    def _feed(self, dispatcher: PythonFunction) -> None:
        for name, queue in self._queues.items():
            dispatcher.add_event_source_mapping(
                f"{pascal(name)}Jobs",
                event_source_arn=queue.jobs.queue_arn,
                batch_size=10,
                # A window would lengthen the messages' effective invisibility.
                max_batching_window=Duration.seconds(0),
                # The least there is: with batches of 10, at most 20 messages are held; the backlog stays in the queue, visible and honest.
                max_concurrency=2,
                # Every message whose job runs is reported as failed, so that the mapping does not delete it. No filter: it would delete what it drops.
                report_batch_item_failures=True,
            )

    def _grant(
        self, *, dispatcher: PythonFunction, heartbeat: PythonFunction, settle: PythonFunction, sweeper: PythonFunction
    ) -> None:
        queues = list(self._queues.values())
        table = self._leases.table
        inputs = [self._bucket("In", name) for name in self._settings.input_buckets]
        outputs = [self._data, *(self._bucket("Out", name) for name in self._settings.output_buckets)]

        grants.beat_leases(heartbeat.house_role, table)
        grants.extend_messages(heartbeat.house_role, queues)

        # Whoever meets a row that owes something finishes it: publishes, sends, dead-letters, deletes; and stops a task that runs on.
        for function in (dispatcher, settle, sweeper):
            grants.hold_leases(function.house_role, table)
            grants.join_leases(function.house_role, table)
            grants.finish_messages(function.house_role, queues)
            grants.write_objects(function.house_role, outputs)
            grants.stop_tasks(function.house_role, tasks_of(self._runtime))
            if self._emr is not None:
                grants.cancel_job_runs(function.house_role, self._emr.application.attr_arn, self._emr.job_runs)

        grants.receive_jobs(dispatcher.house_role, queues)
        for function in (dispatcher, sweeper):
            grants.start_executions(function.house_role, self._workflow.machine)
            grants.describe_executions(function.house_role, self._workflow.machine)
        grants.find_open_leases(sweeper.house_role, table)
        grants.count_messages(sweeper.house_role, queues)
        grants.find_tasks(sweeper.house_role, self._runtime.cluster.attr_arn, tasks_of(self._runtime))

        # On either engine a job does the same.
        for job in (self._runtime.task_role, *([self._emr.job_role] if self._emr else [])):
            grants.hold_leases(job, table)
            grants.read_objects(job, inputs)
            grants.write_objects(job, outputs)
            grants.read_code(job, self._job_prefixes())

    def _job_prefixes(self) -> tuple[str, ...]:
        """As `s3://bucket/…/`, those in the data bucket too, whose name the settings cannot know."""
        return tuple(
            prefix if prefix.startswith("s3://") else f"s3://{self._data.bucket_name}/{prefix}"
            for prefix in self._settings.job_prefixes
        )

    def _bucket(self, prefix: str, name: str) -> s3.IBucket:
        return s3.Bucket.from_bucket_name(self, f"{prefix}-{name}", name)

    def _output(self) -> None:
        for position, (name, queue) in enumerate(self._queues.items()):
            jobs, dead_letters = (
                ("JobsQueueUrl", "DeadLetterQueueUrl")
                if position == 0
                else (f"{pascal(name)}QueueUrl", f"{pascal(name)}DeadLetterQueueUrl")
            )
            CfnOutput(self, jobs, value=queue.jobs.queue_url)
            CfnOutput(self, dead_letters, value=queue.dead_letters.queue_url)
        CfnOutput(self, "LeasesTableName", value=self._leases.table.table_name)
        CfnOutput(self, "StateMachineArn", value=self._workflow.machine.state_machine_arn)
        CfnOutput(self, "DataBucketName", value=self._data.bucket_name)
        CfnOutput(self, "AlarmsTopicArn", value=self._alarms.topic.topic_arn)
        for position, (name, role) in enumerate(self._scheduling.roles.items()):
            CfnOutput(self, f"{pascal(name) if position else ''}SchedulerRoleArn", value=role.role_arn)
