"""The construct of a deployment, as a table of contents: its parts, and what each may do.

Another app's stack may hold it, beside parts of its own; `longhaul.cdk.app` has it with outputs.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from aws_cdk import ArnFormat, CfnOutput, Duration, Names, Stack, Token
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from longhaul.cdk import grants, metrics, notify_targets, roles
from longhaul.cdk.alarms import Alarms
from longhaul.cdk.data_bucket import DataBucket
from longhaul.cdk.functions import PythonFunction, SharedCode
from longhaul.cdk.leases import Leases
from longhaul.cdk.nag import acknowledge_wildcards
from longhaul.cdk.network import Network
from longhaul.cdk.notify_targets import NotifyTarget
from longhaul.cdk.queues import StageQueues
from longhaul.cdk.scheduling import Scheduling, Sweeping, Triggers
from longhaul.cdk.table_databases import TableDatabases
from longhaul.cdk.workflow import Workflow
from longhaul.config.errors import SettingsError
from longhaul.config.job_files import check
from longhaul.config.known import Made, environment
from longhaul.config.project import Project, bare, load_project
from longhaul.config.rights import DATA_BUCKET, absolute, access_of, bucket_in
from longhaul.config.settings import Settings
from longhaul.config.sources import sources, version
from longhaul.config.stages import StageDeployment, pascal, queue_prefix
from longhaul.core.engine import has_tables
from longhaul.core.lease import JOINED_PREFIX, REQUESTS_PREFIX, stage_folders
from longhaul.core.settings import EmrApplication
from longhaul.engines.aws_lambda.construct import LambdaJobs
from longhaul.engines.emr_serverless.construct import EmrServerless
from longhaul.engines.fargate.construct import SparkRuntime

if TYPE_CHECKING:
    from longhaul.engines.construct import EngineConstruct

EngineName = Literal["fargate", "lambda", "emr-serverless"]

# Of the names that are made of a construct's path: with a stage's name and `-dead-letters`, a
# queue's has 80 characters at most.
LONGEST_NAME: Final = 40
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


class Longhaul(Construct):
    """Queues of PySpark jobs, and all that runs them: `docs/construct.md`."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings | Mapping[str, Any] | None = None,
        project: Project | Path | str | None = None,
        vpc: ec2.IVpc | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        permissions_boundary: iam.IManagedPolicy | None = None,
        notify: Mapping[str, NotifyTarget] | None = None,
    ) -> None:
        """Make the parts of a deployment in the stack of `scope`.

        Args:
            scope: a stack, or a construct in one.
            id_: with the id `Default`, logical ids are those of a stack that has all parts itself.
            settings: the model, or a mapping with the names of `longhaul.toml`. What they set
                overrides the project's: objects merge, lists and scalars replace. `stack_name` is
                how physical names begin; by default it is made of the stack's name and the
                construct's path, so that no two constructs share one. `account`, `region` and
                `bootstrap_qualifier` are the stack's to say.
            project: the folder with `longhaul.toml` and the jobs; None for the catalogue.
            vpc: where tasks run, in the place of a VPC of Longhaul's own.
            vpc_subnets: of `vpc`; by default its private subnets if it has some. Tasks in public
                ones get public IPs.
            permissions_boundary: of every role here, in the place of the setting.
            notify: by a stage's name, the queue, topic or event bus that is told when a job of it
                has ended, in the place of the stage's setting.

        Raises:
            SettingsError: settings are wrong; the message names each.
        """
        super().__init__(scope, id_)
        if isinstance(project, Path | str):
            project = load_project(Path(project))
            check(project)
        self._settings = self._checked(settings or {}, project)
        self._notify = notify or {}
        self._settings = notify_targets.with_targets(self._settings, self._notify, self.node.path)
        self._take_name()
        if vpc is not None and "network" in self._settings.model_fields_set:
            raise SettingsError(f"{self.node.path}: vpc: network names one too; give one of them")
        self._make_parts(sources(), project, vpc, vpc_subnets)
        roles.apply_boundary(self, permissions_boundary or self._settings.permissions_boundary)
        roles.apply_names(self, self._settings)

    @property
    def data_bucket(self) -> s3.IBucket:
        """Inputs and outputs of jobs; below `longhaul/` it is Longhaul's own."""
        return self._data

    @property
    def leases_table(self) -> dynamodb.ITable:
        """A row for each job: who holds it, and what became of it. Not for others to write."""
        return self._leases.table

    @property
    def state_machine(self) -> sfn.IStateMachine:
        """Runs one execution for each attempt."""
        return self._workflow.machine

    @property
    def alarms_topic(self) -> sns.ITopic:
        """Gets the messages of all alarms."""
        return self._alarms.topic

    @property
    def name(self) -> str:
        """The setting `stack_name`: how physical names begin, and the namespace of the metrics."""
        return self._settings.stack_name

    def job_roles(self, stage: str) -> Mapping[str, iam.IRole]:
        """By engine, the roles with which jobs of a stage run. A job may run on each of them.

        A role that the settings name (`role`) is returned as it is: nothing adds to it.

        Raises:
            ValueError: the settings have no such stage.
        """
        _look_up(self._queues, stage, "stage")
        return MappingProxyType(
            {each.meaning.name: each.job_roles[stage] for each in self._engines}
        )

    def job_role(self, stage: str, engine: EngineName = "fargate") -> iam.IRole:
        """The role with which jobs of a stage run on an engine.

        Raises:
            ValueError: the settings have no such stage or engine.
        """
        return _look_up(self.job_roles(stage), engine, "engine")

    def queue(self, stage: str) -> sqs.IQueue:
        """The queue of jobs of a stage.

        Raises:
            ValueError: the settings have no such stage.
        """
        return _look_up(self._queues, stage, "stage").jobs

    def dead_letter_queue(self, stage: str) -> sqs.IQueue:
        """What a stage has given up, each with the reason. Raises as `queue`."""
        return _look_up(self._queues, stage, "stage").dead_letters

    def grant_submit(self, grantee: iam.IGrantable, stage: str | None = None) -> iam.Grant:
        """Let it send jobs to a stage, or to all: nothing more than to send to the queues.

        The queues have SQS's own encryption, which asks for no right to a key.

        Raises:
            ValueError: the settings have no such stage.
        """
        queues = [self.queue(name) for name in ([stage] if stage else self._queues)]
        first, *others = [queue.grant(grantee, "sqs:SendMessage") for queue in queues]
        for grant in others:
            first = first.combine(grant)
        return first

    def grant_client(self, role: iam.IRole) -> None:
        """Let it do all that `longhaul.client.Client` does, with the jobs of every stage.

        That is to read and end them all: a program that only sends needs `grant_submit`.
        """
        settings, table, queues = self._settings, self._leases.table, list(self._queues.values())
        outputs = [DATA_BUCKET, *(f"s3://{each}/" for each in settings.output_buckets)]
        grants.find_stack(role, Stack.of(self))
        grants.hold_leases(role, table)
        grants.find_open_leases(role, table)
        grants.finish_messages(role, queues)
        self._grant_notices(role)
        grants.read_objects(role, self._data, outputs)
        grants.use_keys(role, read=self._keys(settings.output_buckets), write=())

    def metric(
        self,
        metric_name: str,
        *,
        stage: str | None = None,
        **options: Any,  # noqa: ANN401 - those of `cloudwatch.Metric`
    ) -> cloudwatch.Metric:
        """A metric by its name in CloudWatch (`JobsSucceeded`), over periods of five minutes.

        Args:
            metric_name: one of `docs/operations.md`.
            stage: whose; None for a metric of the sweeper.
            options: of `cloudwatch.Metric`, such as `statistic` and `period`. The statistic is by
                default the one of the dashboard.

        Raises:
            ValueError: there is no such metric, or no such stage.
        """
        if stage is not None:
            _look_up(self._queues, stage, "stage")
        return metrics.named(self.name, metric_name, stage).with_(**options)

    def add_outputs(self) -> None:
        """Add the outputs by which `longhaul --stack …` finds a deployment: once in a stack."""
        # The first stage's outputs have no prefix.
        prefixes = ["", *(pascal(name) for name in list(self._queues)[1:])]
        outputs = {}
        for prefix, queues in zip(prefixes, self._queues.values(), strict=True):
            outputs[f"{prefix or 'Jobs'}QueueUrl"] = queues.jobs.queue_url
            outputs[f"{prefix}DeadLetterQueueUrl"] = queues.dead_letters.queue_url
        outputs |= {
            "LeasesTableName": self._leases.table.table_name,
            "StateMachineArn": self._workflow.machine.state_machine_arn,
            "DataBucketName": self._data.bucket_name,
            "LonghaulVersion": version(),
            "AlarmsTopicArn": self._alarms.topic.topic_arn,
        }
        for prefix, role in zip(prefixes, self._scheduling.roles.values(), strict=True):
            outputs[f"{prefix}SchedulerRoleArn"] = role.role_arn
        for name, value in outputs.items():
            CfnOutput(Stack.of(self), name, value=value)

    def _checked(self, settings: Settings | Mapping[str, Any], project: Project | None) -> Settings:
        """The project's settings, overridden by these, and by what the stack says."""
        if isinstance(settings, Settings):
            # What is not set keeps the project's value, or the default of a later version.
            settings = settings.model_dump(mode="json", exclude_unset=True)
        stack = Stack.of(self)
        env = (("account", stack.account), ("region", stack.region))
        known = {name: value for name, value in env if not Token.is_unresolved(value)}
        name = Names.unique_resource_name(self, max_length=LONGEST_NAME, separator="-")
        of = project or bare()
        usual = {"stack_name": of.settings.get("stack_name", name)}
        return of.checked({**usual, **settings, **known}, self.node.path)

    def _take_name(self) -> None:
        """Refuse a name that another construct of the app has in the same environment."""
        root = self.node.root
        taken = f"Longhaul {Stack.of(self).environment} {self._settings.stack_name}"
        taken = taken.replace("/", ":")
        if root.node.try_find_child(taken):
            raise SettingsError(
                f"{self.node.path}: stack_name: another Longhaul of this app has the name "
                f"{self._settings.stack_name!r}, so queues and more would clash; give another"
            )
        # A construct without a resource: the app alone knows all of its stacks.
        Construct(cast("Construct", root), taken)

    def _make_parts(
        self,
        repository: Path,
        project: Project | None,
        vpc: ec2.IVpc | None,
        vpc_subnets: ec2.SubnetSelection | None,
    ) -> None:
        settings = self._settings
        name = settings.stack_name
        self._queues = {
            stage.name: StageQueues(
                self, f"{pascal(stage.name)}Queue", prefix=queue_prefix(name, stage.name)
            )
            for stage in settings.stages
        }
        self._leases = Leases(self, "Leases")
        self._data = DataBucket(self, "Data", settings=settings)
        self._databases = TableDatabases(self, "Tables", settings=settings, data=self._data)
        network = Network(self, "Network", settings=settings, vpc=vpc, vpc_subnets=vpc_subnets)
        self._spark = SparkRuntime(
            self,
            "Spark",
            settings=settings,
            repository=repository,
            project=project,
            network=network,
        )
        self._shared = SharedCode(self, "Shared", repository=repository, settings=settings)
        # The first is the default.
        self._engines: list[EngineConstruct] = [self._spark]
        if settings.sizes.tiny is not None:
            jobs = LambdaJobs(
                self,
                "Lambda",
                settings=settings,
                tiny=settings.sizes.tiny,
                image=self._spark.image,
                log_group=self._spark.log_group,
            )
            self._engines.append(jobs)
        emr_application = None
        if settings.emr_serverless is not None:
            emr = EmrServerless(
                self,
                "EmrServerless",
                settings=settings,
                emr_settings=settings.emr_serverless,
                repository=repository,
                project=project,
                data=self._data,
                log_group=self._spark.log_group,
            )
            self._engines.append(emr)
            emr_application = EmrApplication(
                application_arn=emr.application.attr_arn, work_area=emr.work_area
            )
        made = Made(
            data_bucket=self._data.bucket_name,
            leases_table=self._leases.table.table_name,
            # By name: the machine itself names functions that need these settings.
            state_machine_arn=Stack.of(self).format_arn(
                service="states",
                resource="stateMachine",
                resource_name=name,
                arn_format=ArnFormat.COLON_RESOURCE_NAME,
            ),
            cluster_arn=self._spark.cluster.attr_arn,
            job_log_group=self._spark.log_group.log_group_name,
            queue_urls={
                name: (each.jobs.queue_url, each.dead_letters.queue_url)
                for name, each in self._queues.items()
            },
            public_ip=network.assign_public_ip,
            emr_serverless=emr_application,
        )
        self._runtime_settings = environment(settings, (project or bare()).job_names, made)
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
        self._scheduling = Scheduling(
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
            undelivered=self._scheduling.undelivered,
            data=self._data,
        )
        self._alarms = Alarms(
            self,
            "Alarms",
            settings=settings,
            queues=self._queues,
            undelivered={"rules": sweeping.undelivered, "schedules": self._scheduling.undelivered},
        )
        metrics.Dashboard(
            self, "Dashboard", name=name, stages=settings.stages, alarms=self._alarms.all
        )
        self._grant(dispatcher=dispatcher, heartbeat=heartbeat, settle=settle, sweeper=sweeper)
        if settings.functions_in_vpc:
            for each in self.node.find_all():
                if isinstance(each, lambda_.Function):
                    network.hold(each)

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
        settings = self._settings
        outputs = [DATA_BUCKET, *(f"s3://{each}/" for each in settings.output_buckets)]
        code = absolute(settings.job_prefixes, self._data.bucket_name)
        # What a job is asked to do: functions write it, and a lifecycle rule deletes it.
        asked = absolute((REQUESTS_PREFIX, JOINED_PREFIX), self._data.bucket_name)
        grants.beat_leases(heartbeat.execution_role, table, self._queues)
        grants.extend_messages(heartbeat.execution_role, queues)

        # Each of the three finishes a row that owes something: it publishes, sends, dead-letters,
        # deletes, and stops a task that still runs.
        for function in (dispatcher, settle, sweeper):
            role = function.execution_role
            grants.hold_leases(role, table)
            grants.finish_messages(role, queues)
            self._grant_notices(role)
            grants.write_objects(role, self._data, outputs, never=code, kept=asked)
            grants.use_keys(role, read=(), write=self._keys(settings.output_buckets))
            self._databases.open_to(role, function.node.id)
            for engine in self._engines:
                engine.grant_stopping(role)

        grants.receive_jobs(dispatcher.execution_role, queues)
        for function in (dispatcher, sweeper):
            grants.run_executions(function.execution_role, self._workflow.machine)
            grants.find_open_leases(function.execution_role, table)
        grants.count_messages(sweeper.execution_role, queues)
        for engine in self._engines:
            engine.grant_finding(sweeper.execution_role)

        for stage in settings.stages:
            self._grant_jobs(stage, never=[*code, *asked])

    def _grant_notices(self, role: iam.IRole) -> None:
        named = [each for each in self._settings.stages if each.name not in self._notify]
        grants.notify(role, (stage.advanced.notify for stage in named if stage.advanced.notify))
        for target in self._notify.values():
            notify_targets.grant(target, role)

    def _grant_jobs(self, stage: StageDeployment, *, never: Sequence[str]) -> None:
        """Give the roles of a stage what its jobs need, on every engine the same."""
        if stage.advanced.role is not None:
            # It is its team's, also in Lake Formation.
            return
        settings, access = self._settings, access_of(stage, self._settings)
        others = [each.name for each in settings.stages if each is not stage]
        reads, writes = [*access.reads_only()], [*access.writes]
        if DATA_BUCKET not in access.writes:
            writes.append(stage_folders(stage.name))
        if DATA_BUCKET not in (*access.reads, *access.writes):
            reads += [REQUESTS_PREFIX, JOINED_PREFIX]
        for engine in self._engines:
            role = engine.job_roles[stage.name]
            grants.report_to_leases(role, self._leases.table, stage.name)
            grants.read_objects(role, self._data, reads)
            grants.write_objects(role, self._data, writes, never=never)
            grants.keep_apart(role, self._data, others)
            grants.use_keys(
                role,
                read=settings.keys_of(map(bucket_in, (*access.reads, *access.code))),
                write=self._keys(map(bucket_in, access.writes)),
            )
            grants.read_code(role, self._data, absolute(access.code, self._data.bucket_name))
            grants.read_secrets(role, stage.advanced.secrets.values())
            if has_tables(engine.meaning.name):
                who = roles.stage_id(stage.name, pascal(engine.meaning.name))
                self._databases.open_to(role, who, writes=access.writes, reads=access.reads)
        if stage.advanced.policies:
            # Apart from our own part, with which it would share names of statements.
            policy = iam.Policy(
                self,
                f"{pascal(stage.name)}Policies",
                statements=[
                    iam.PolicyStatement.from_json(
                        each.model_dump(mode="json", exclude_defaults=True)
                    )
                    for each in stage.advanced.policies
                ],
                roles=[each.job_roles[stage.name] for each in self._engines],
            )
            for each in stage.advanced.policies:
                acknowledge_wildcards(
                    policy, each.Resource, "The settings of the stage ask for it."
                )

    def _keys(self, buckets: Iterable[str]) -> Sequence[str]:
        """The keys with which the data bucket and these are encrypted."""
        own = [self._settings.kms_key] if self._settings.kms_key else []
        return [*own, *self._settings.keys_of(buckets)]


_T = TypeVar("_T")


def _look_up(of: Mapping[str, _T], name: str, what: str) -> _T:
    if name not in of:
        raise ValueError(f"there is no {what} {name!r}; there are: {', '.join(of)}")
    return of[name]
