"""One world: the real handlers, adapters and state machine over the strict fakes, on one heap of events, one clock and one plan."""

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from longhaul.settings import RuntimeSettings
from tests.fakes.aws import FakeAws
from tests.fakes.clock import VirtualClock
from tests.fakes.service import Call
from tests.fakes.sqs_batch import EntryFault
from tests.fakes.stepfunctions import Execution
from tests.simulation.acts import plan_act
from tests.simulation.containers import Containers, Surroundings
from tests.simulation.events import EventBridge
from tests.simulation.files import spark_output
from tests.simulation.hosts import Host, here
from tests.simulation.injection import Injector
from tests.simulation.lambda_platform import Lambda
from tests.simulation.mapping import EventSourceMapping
from tests.simulation.plan import Job, Plan
from tests.simulation.randomness import rng_of
from tests.simulation.sdk import Sdk
from tests.simulation.seen import Seen
from tests.simulation.stages import MAIN, jobs_of, queues_of, stages_of
from tests.simulation.template import Deployed, deployed
from tests.simulation.timeline import Timeline
from tests.simulation.workflow import engine

if TYPE_CHECKING:
    from collections.abc import Callable

_SETTLING_S = 320.0  # a sweep and a bit: what is quiet must stay so
_PATIENCE_S = 3 * 86_400.0  # after the faults: back-offs, missing messages, twenty interruptions


class World:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.stack: Deployed = deployed()
        self.settings = _settings(self.stack.settings, plan)
        self.jobs = jobs_of(plan)
        self.timeline = Timeline(VirtualClock())
        self.injector = Injector(plan, self.timeline)
        self.aws = FakeAws(self.timeline.clock)
        self.bucket = self.settings.paths.data_bucket
        self._deploy()
        self._be_open_to_faults()
        self.sdk = Sdk(self.aws, self.timeline, self.injector, self._saw, self._refused)
        self.platform = Lambda(plan, self.timeline, self.injector, self.stack.functions)
        self.mappings = {name: self._mapping(name) for name in self.queues}
        around = Surroundings(
            plan, self.timeline, self.sdk, self.settings, spark_output(), self.jobs, self._job_of, self.attempt_label
        )
        self.containers = Containers(around, self.aws.ecs, self.injector)
        self.engine = engine(
            plan, self.timeline, self.aws.stepfunctions, self.sdk, self.injector, self.platform, self.attempt_label
        )
        self.aws.stepfunctions.engine = self.engine
        self.events = EventBridge(
            plan, self.timeline, self.injector, self.platform, self.stack.rules, self.attempt_label
        )
        self.aws.stepfunctions.status_changed.append(self.events.execution_changed)
        self.trace: Callable[[str], None] | None = None
        self.seen = Seen(self)
        self.acts_to_come = len(plan.acts)
        for number, act in enumerate(plan.acts):
            plan_act(self, number, act)

    # Going on.

    def run(self) -> None:
        """Until nothing is left to do, patience ends, or an invariant does not hold (`seen.violated`)."""
        start = self.timeline.clock.now()
        longest_s = len(self.queues) * max((job.work_s for job in self.jobs.values()), default=0.0)
        last_act_s = max((act.at_s for act in self.plan.acts), default=0.0)
        calm_at = start + timedelta(seconds=last_act_s + 2 * longest_s + 3_600)
        self._come_to_rest(calm_at)
        self.injector.calm()
        if not self.is_quiet():
            self._come_to_rest(calm_at + timedelta(seconds=_PATIENCE_S + 6 * longest_s))
        self.seen.check_end()

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
            and not self.seen.open_rows
            and not any(name.startswith("longhaul/pending/") for name in self.seen.objects())
        )

    def _come_to_rest(self, end: Any) -> None:
        """Until it is quiet and stays so, or until `end`."""
        while self._go_on_until(end):
            self._step_until(self.timeline.clock.now() + timedelta(seconds=_SETTLING_S))
            if self.seen.violated is not None or self.is_quiet():
                return

    def _go_on_until(self, end: Any) -> bool:
        """Whether it was quiet before the end."""
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

    # What others ask.

    def keys_of(self, job: str) -> list[str]:
        """The lease keys of a job's messages: its name, or for a job without a job_id the ids of the messages that producers sent; of what follows from another those sent."""
        if "." in job:
            return [key for key, name in self.seen.names.items() if name == job]
        if self.jobs[job].named:
            return [f"{MAIN}#{job}"]
        return [f"{MAIN}#{each}" for each in self.seen.message_ids_of(job)]

    def executions_of(self, job: str) -> list[Execution]:
        keys = set(self.keys_of(job))
        return [each for each in self.aws.stepfunctions.executions.values() if self.seen.started[each.arn].key in keys]

    def label_of(self, key: str) -> str:
        """How the sites of a plan name a job. Not by the id of what follows from another: that changes with the time at which the other was claimed."""
        return self.seen.labels.get(key) or key.partition("#")[2]

    def attempt_label(self, key: str, attempt: int | str) -> str:
        return f"{self.label_of(key)}-{attempt}"

    def _job_of(self, key: str) -> Job:
        return self.jobs[self.seen.names[key]]

    # Parts.

    def _deploy(self) -> None:
        aws, stack = self.aws, self.stack
        for name, attributes in queues_of(stack.queues, self.settings.stages).items():
            aws.sqs.create_queue(QueueName=name, Attributes=attributes)
        self.queues = {each.name: aws.sqs.queues[each.queue_url] for each in self.settings.stages}
        self.dead_letter_queues = {
            each.name: aws.sqs.queues[each.dead_letter_queue_url] for each in self.settings.stages
        }
        aws.dynamodb.create_table(**stack.table)
        aws.s3.create_bucket(Bucket=self.bucket)
        aws.ecs.create_cluster(clusterName="Longhaul")
        for family, stop_timeout_s in stack.families.items():
            aws.ecs.register_task_definition(
                family=family, containerDefinitions=[{"name": "job", "stopTimeout": stop_timeout_s}]
            )
        aws.stepfunctions.create_state_machine(name="Longhaul", definition=stack.definition, roleArn="")

    def _mapping(self, stage: str) -> EventSourceMapping:
        return EventSourceMapping(
            label="" if stage == MAIN else f"{stage}.",
            seed=self.plan.seed,
            timeline=self.timeline,
            sqs=self.sdk.client("sqs"),
            queue=self.queues[stage],
            platform=self.platform,
            batch_size=self.stack.batch_size,
            concurrency=self.stack.concurrency,
        )

    def _be_open_to_faults(self) -> None:
        """Where AWS leaves something open, or lets it happen at any time, the plan says how it is here."""
        mix, rng = self.plan.mix, rng_of(self.plan.seed, "aws")
        sqs = self.aws.sqs
        if mix.stale_handles == "any":
            sqs.stale_handles = lambda _use: rng.choice(("work", "ignore", "fail"))
        else:
            sqs.stale_handles = mix.stale_handles  # type: ignore[assignment]  # one of the three words
        if mix.reorder:
            sqs.reorder = rng.shuffle
        sqs.entry_fault = self._fault_of_entry
        if mix.short_pages:
            self.aws.dynamodb.batch_size, self.aws.dynamodb.page_size, self.aws.s3.page_size = 2, 1, 1
        if mix.index_lag_s:
            self.aws.dynamodb.index_lag_s = lambda: mix.index_lag_s * rng.random()
            self.aws.dynamodb.weak_read_lag_s = mix.index_lag_s

    def _fault_of_entry(self, operation: str, _entry: Any) -> EntryFault | None:
        """Of a batch, one entry may fail alone."""
        if self.injector.of_event(f"entry:{operation}", ("fails",), self.plan.mix.calls) is None:
            return None
        return EntryFault("InternalError", "We encountered an internal error.")

    def _saw(self, call: Call, host: Host) -> None:
        """A call took effect."""
        if call.service == "sqs":
            self._wake_mappings(call)
        if self.trace is not None:
            self.trace(f"{host.name}  {call.service}.{call.operation}{_about(call)}")
        self.seen.call(call, host)

    def _wake_mappings(self, call: Call) -> None:
        """Of the stage whose queue was called; a move of dead letters names none."""
        url = call.arguments.get("QueueUrl")
        for stage, queue in self.queues.items():
            if url in (None, queue.url, self.dead_letter_queues[stage].url):
                self.mappings[stage].look()

    def _refused(self, call: Call, host: Host, text: str) -> None:
        if self.trace is not None:
            self.trace(f"{host.name}  {call.service}.{call.operation}{_about(call)}  refused: {text[:90]}")
        self.seen.refused(call, host, text)


def _about(call: Call) -> str:
    """What of a call's arguments tells one from another."""
    shown = [
        str(call.arguments[name]) for name in ("Key", "VisibilityTimeout", "name", "task") if name in call.arguments
    ]
    return f" {' '.join(shown)}" if shown and call.service != "dynamodb" else ""


def _settings(usual: RuntimeSettings, plan: Plan) -> RuntimeSettings:
    lease = usual.lease.model_copy(update={"renew_receives": plan.renew_receives, "slot_wait_s": plan.slot_wait_s})
    return usual.model_copy(update={"stages": stages_of(usual.stages[0], plan), "lease": lease})


def rng_for_product() -> random.Random:
    """In the place of `random.Random()` in the product: seeded by who asks."""
    host = here()
    return random.Random(host.rng.getrandbits(64))
