"""One world: the real handlers, adapters and state machine over the fakes, on one timeline."""

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from longhaul.core.places import TablePath
from longhaul.core.settings import RuntimeSettings
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.records import Records
from simulation.aws.clock import VirtualClock
from simulation.aws.cloud import FakeAws
from simulation.aws.ecs.client import Launches
from simulation.aws.emr_serverless.client import Application
from simulation.aws.platform.containers import Containers
from simulation.aws.platform.drivers import Drivers
from simulation.aws.platform.hosts import Host, current_host, here
from simulation.aws.platform.invocations import Lambda
from simulation.aws.platform.job_function import FUNCTION, JobFunction
from simulation.aws.platform.sdk import Sdk
from simulation.aws.platform.state_machine import engine
from simulation.aws.platform.timeline import Timeline
from simulation.aws.platform.triggers import LATE, EventBridge, EventSourceMapping
from simulation.aws.s3.uploads import AT_ONCE, KINDS, Completion
from simulation.aws.service import Call
from simulation.aws.sqs.client import EntryFault
from simulation.aws.sqs.queues import Message
from simulation.aws.stepfunctions.client import Execution
from simulation.aws.template import Deployed, deployed
from simulation.seen.record import Seen
from simulation.seen.watch import Watch
from simulation.worlds.acts import plan_act
from simulation.worlds.files import spark_output
from simulation.worlds.injection import Injector
from simulation.worlds.notified import create
from simulation.worlds.plan import Job, Plan
from simulation.worlds.randomness import rng_of
from simulation.worlds.requests import DATABASE
from simulation.worlds.secrets import ARN, value_of
from simulation.worlds.stages import MAIN, jobs_of, queues_of, stages_of
from simulation.worlds.tables import WRITERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_dynamodb import DynamoDBClient

_SETTLING_S = 320.0  # longer than a sweep: a quiet world must stay quiet
_RENEWED_BEFORE_S = 43_200 + 3_600
_PATIENCE_S = 3 * 86_400.0  # after the faults: back-offs, missing messages, twenty interruptions


class World:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.stack: Deployed = deployed(tiny=plan.has_tiny, emr=plan.has_emr)
        self.settings = _settings(self.stack.settings, plan)
        self.stages = {stage.name: stage for stage in self.settings.stages}  # as deployed first
        self.jobs = jobs_of(plan)
        self.versions: Counter[tuple[str, str]] = Counter()  # of code and inputs; see `change`
        self.timeline = Timeline(VirtualClock())
        self.injector = Injector(plan, self.timeline)
        self.aws = FakeAws(self.timeline.clock)
        self.bucket = self.settings.paths.data_bucket
        # What the secret of the stages has been from when on; None: it is not there.
        self.secrets: list[tuple[datetime, str | None]] = []
        if plan.secret:
            self.set_secret(value_of(0))
        self._deploy()
        self._be_open_to_faults()
        self.sdk = Sdk(self.aws, self.timeline, self.injector, self._saw, self._refused)
        self.platform = Lambda(self)
        self.mappings = {name: self._mapping(name) for name in self.queues}
        self.output = spark_output()  # what Spark would have written
        self.aws.ecs.launches = Launches(plan.launches_per_s, plan.launches_at_once)
        self.containers = Containers(self)
        function = self.stack.functions.get(FUNCTION)
        self.tiny = JobFunction(self, function) if function else None
        application = self._deploy_application()
        self.drivers = Drivers(self, application) if application else None
        self.engine = engine(self)
        self.aws.stepfunctions.engine = self.engine
        self.events = EventBridge(self)
        self.aws.stepfunctions.status_changed.append(self.events.execution_changed)
        self.trace: Callable[[str], None] | None = None
        self.seen = Seen(self)
        self.watch = Watch(self, self.seen)
        self.acts_to_come = len(plan.acts)
        for number, act in enumerate(plan.acts):
            plan_act(self, number, act)

    def set_secret(self, value: str | None) -> None:
        """Give the secret of the stages a value, or delete it."""
        self.secrets.append((self.timeline.clock.now(), value))
        if value is None:
            self.aws.secretsmanager.delete(ARN)
        else:
            self.aws.secretsmanager.put(ARN, value)

    def run(self) -> None:
        """Run until no work is left, patience ends, or an invariant fails (`seen.violated`)."""
        start = self.timeline.clock.now()
        longest_s = len(self.queues) * max((job.work_s for job in self.jobs.values()), default=0.0)
        ends_s = [act.at_s + act.for_s for act in self.plan.acts]
        last_s = max(ends_s, default=0.0)
        calm_at = start + timedelta(seconds=last_s + 2 * longest_s + 3_600)
        self._come_to_rest(calm_at)
        self.injector.is_calm = True
        if not self.is_quiet():
            self._come_to_rest(calm_at + timedelta(seconds=_PATIENCE_S + 6 * longest_s))
        self.seen.check("the end", None)

    @property
    def virtual_s(self) -> float:
        return (self.timeline.clock.now() - self.seen.began_at).total_seconds()

    def is_quiet(self) -> bool:
        return (
            not self.acts_to_come
            and not any(queue.messages for queue in self.queues.values())
            and not self.platform.running
            and not self.engine.runs
            and not self.containers.running
            and not (self.tiny and self.tiny.running)
            and not self.seen.open_rows
            and not self.seen.asked.untold
            and (not self.seen.watched or bool(self.seen.purged_keys))
            and not any(name.startswith("longhaul/pending/") for name in self.seen.objects())
            and not self.seen.stored.is_left()
        )

    def _come_to_rest(self, end: Any) -> None:
        """Run until the world is quiet and stays so, or until `end`."""
        while self._go_on_until(end):
            self._step_until(self.timeline.clock.now() + timedelta(seconds=_SETTLING_S))
            if self.seen.violated is not None or self.is_quiet():
                return

    def _go_on_until(self, end: Any) -> bool:
        """Run until the world is quiet; False if `end` comes first."""
        if self.is_quiet():
            return True
        step, seen, first = self.timeline.step, self.seen, self.queues[MAIN]
        while step(end) and seen.violated is None:
            if not self.acts_to_come and not first.messages and self.is_quiet():
                return True
        return False

    def _step_until(self, end: Any) -> None:
        while self.timeline.step(end) and self.seen.violated is None:
            pass

    def keys_of(self, job: str) -> list[str]:
        """The lease keys of a job.

        They come from its job_id, or without one from the ids of its messages. A follow-on has the
        keys under which it was sent.
        """
        seen = self.seen
        if "." in job or not self.jobs[job].named:
            return [key for key, name in seen.names.items() if name == job]
        return [f"{MAIN}#{job}"]

    def executions_of(self, job: str) -> list[Execution]:
        keys = set(self.keys_of(job))
        return [
            each
            for each in self.aws.stepfunctions.executions.values()
            if self.seen.started[each.arn].key in keys
        ]

    def label_of(self, key: str) -> str:
        """The job's name in the sites of a plan.

        The id of a follow-on would not do: it depends on when its parent was claimed.
        """
        return self.seen.labels.get(key) or key.partition("#")[2]

    def attempt_label(self, key: str, attempt: int | str) -> str:
        return f"{self.label_of(key)}-{attempt}"

    def job_of(self, key: str) -> Job:
        return self.jobs[self.seen.names[key]]

    def redeploy(self, **changes: Any) -> None:
        """New functions and tasks get the changed settings; what runs keeps its own."""
        self.settings = self.settings.model_copy(update=changes)
        self.platform.redeployed()

    def _deploy(self) -> None:
        aws, stack = self.aws, self.stack
        for name, attributes in queues_of(
            stack.queues, self.settings.stages, self.plan.retention_s
        ).items():
            aws.sqs.create_queue(QueueName=name, Attributes=attributes)
        create(aws, self.plan.notify)
        self.queues = {each.name: aws.sqs.queues[each.queue_url] for each in self.settings.stages}
        self.dead_letter_queues = {
            each.name: aws.sqs.queues[each.dead_letter_queue_url] for each in self.settings.stages
        }
        aws.dynamodb.create_table(**stack.table)
        # Sweeps note which stages there are, and the stack is older than the world.
        DynamoLeases(
            Records(
                cast("DynamoDBClient", aws.dynamodb),
                self.settings.leases_table,
                VirtualClock(),
                random.Random(1),
            )
        ).stages(self.stages)
        aws.s3.create_bucket(Bucket=self.bucket)
        aws.glue.create_database(DatabaseInput={"Name": DATABASE})
        aws.ecs.create_cluster(clusterName="Longhaul")
        for family, stop_timeout_s in stack.families.items():
            aws.ecs.register_task_definition(
                family=family, containerDefinitions=[{"name": "job", "stopTimeout": stop_timeout_s}]
            )
        aws.stepfunctions.create_state_machine(
            name="Longhaul", definition=stack.definition_for(self.stages), roleArn=""
        )

    def _deploy_application(self) -> Application | None:
        """The application of EMR Serverless, where the stack has one."""
        emr = self.aws.emr_serverless
        if self.stack.application is None:
            return None
        id_ = emr.create_application(clientToken="deploy", **self.stack.application)
        return emr.applications[id_["applicationId"]]

    def _mapping(self, stage: str) -> EventSourceMapping:
        mapping = EventSourceMapping(
            label="" if stage == MAIN else f"{stage}.",
            seed=self.plan.seed,
            timeline=self.timeline,
            sqs=self.sdk.client("sqs"),
            queue=self.queues[stage],
            platform=self.platform,
            batch_size=self.stack.batch_size,
            concurrency=self.stack.concurrency,
        )
        mapping.late = lambda batch: self.injector.of_event(
            f"deliver:{batch}", LATE, self.plan.mix.deliveries
        )
        return mapping

    def _be_open_to_faults(self) -> None:
        """Let the plan decide what AWS leaves open, or lets happen at any time."""
        mix, rng = self.plan.mix, rng_of(self.plan.seed, "aws")
        sqs = self.aws.sqs
        if mix.stale_handles == "any":
            sqs.stale_handles = lambda: rng.choice(("work", "ignore", "fail"))
        else:
            sqs.stale_handles = mix.stale_handles  # type: ignore[assignment]  # one of the three
        if mix.reorder:
            sqs.reorder = rng.shuffle
        sqs.entry_fault = self._fault_of_entry
        sqs.counted = self._counted
        self.aws.s3.completion = self._completion
        if self.plan.has_tables:
            self.aws.glue.meanwhile = self._others_write
        self.aws.s3.repeats_answers = lambda: mix.repeats_answers
        self.aws.s3.sleep = self.timeline.sleep
        if mix.short_pages:
            self.aws.dynamodb.batch_size = 2
            self.aws.dynamodb.page_size = self.aws.s3.page_size = 1
            self.aws.emr_serverless.page_size = 1
        if mix.index_lag_s:
            self.aws.dynamodb.index_lag_s = lambda: mix.index_lag_s * rng.random()

    def _fault_of_entry(self, operation: str, _entry: Any) -> EntryFault | None:
        """One entry of a batch may fail alone."""
        if self.injector.of_event(f"entry:{operation}", ("fails",), self.plan.mix.calls) is None:
            return None
        return EntryFault("InternalError", "We encountered an internal error.")

    def _counted(self, message: Message) -> int:
        """A receive count is approximate."""
        kind = self.injector.of_event(f"count:{message.id}", ("-1", "+1"), self.plan.mix.counts)
        return max(1, message.receive_count + int(kind or 0))

    def _completion(self, key: str) -> Completion:
        """S3 may take minutes to complete an upload."""
        token = self.seen.token_in(key)
        if token is None:
            return AT_ONCE
        site = f"complete:{self.attempt_label(token.key, token.attempt)}"
        return Completion.of(self.injector.of_event(site, KINDS, self.plan.mix.completes))

    def _others_write(self, database: str, name: str) -> None:
        """Others may change a table just before it is read or updated."""
        host = current_host()
        if host is None or self.seen.lake.is_written_by_others:
            return
        kind = self.injector.of_event(f"catalog:{host.name}", WRITERS, self.plan.mix.writers)
        if kind is not None:
            # Imported by worlds that need it alone: pyiceberg takes a while.
            from simulation.worlds.other_writers import write  # noqa: PLC0415

            try:
                write(self, kind, TablePath(database, name))
            except Exception as error:
                # The product, which called the catalog, would take it for an error of Glue's.
                raise AssertionError(f"others could not write: {kind}") from error

    def _saw(self, call: Call, host: Host) -> None:
        """A call took effect."""
        if call.service == "sqs":
            self._wake_mappings(call)
        if self.trace is not None:
            self.trace(f"{host.name}  {call.service}.{call.operation}{_about(call)}")
        self.watch.call(call, host)

    def _wake_mappings(self, call: Call) -> None:
        """Wake the mapping of the called queue; a move of dead letters names none and wakes all."""
        url = call.arguments.get("QueueUrl")
        for stage, queue in self.queues.items():
            if url in (None, queue.url, self.dead_letter_queues[stage].url):
                self.mappings[stage].look()

    def _refused(self, call: Call, host: Host, text: str) -> None:
        if self.trace is not None:
            self.trace(
                f"{host.name}  {call.service}.{call.operation}{_about(call)}  refused: {text[:90]}"
            )
        self.watch.refused(call, host, text)


def _about(call: Call) -> str:
    """The arguments of a call that identify its object."""
    shown = [
        str(call.arguments[name])
        for name in ("Key", "VisibilityTimeout", "name", "task")
        if name in call.arguments
    ]
    return f" {' '.join(shown)}" if shown and call.service != "dynamodb" else ""


def _settings(usual: RuntimeSettings, plan: Plan) -> RuntimeSettings:
    lease = usual.lease.model_copy(update={"renew_receives": plan.renew_receives})
    if plan.retention_s:
        # As of ten days: a hand-over, which is every half day, comes in time.
        lease = lease.model_copy(update={"renew_age_s": plan.retention_s - _RENEWED_BEFORE_S})
    return usual.model_copy(update={"stages": stages_of(usual.stages[0], plan), "lease": lease})


def rng_for_product() -> random.Random:
    """Replaces `random.Random()` in the product: seeded by the calling host."""
    host = here()
    return random.Random(host.rng.getrandbits(64))
