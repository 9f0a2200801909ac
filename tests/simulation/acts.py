"""What people do to the system, and what SQS may do of itself: each an entry of a plan."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from functions.wiring import wiring
from longhaul.cancel import Canceller
from longhaul.domain.errors import LonghaulError
from tests.simulation.hosts import Host
from tests.simulation.plan import Act
from tests.simulation.randomness import rng_of
from tests.simulation.requests import INVALID_BODIES, body_of, corrected_of
from tests.simulation.stages import CLEAN, MAIN

if TYPE_CHECKING:
    from tests.simulation.world import World


def submit(world: "World", act: Act) -> None:
    body = body_of(world.jobs[act.job], act.work, world.bucket)
    world.sdk.client("sqs").send_message(QueueUrl=world.queues[MAIN].url, MessageBody=body)


def submit_invalid(world: "World", act: Act) -> None:
    body = INVALID_BODIES[act.work % len(INVALID_BODIES)]
    world.sdk.client("sqs").send_message(QueueUrl=world.queues[MAIN].url, MessageBody=body)


def cancel(world: "World", act: Act) -> None:
    parts = wiring()
    for key in world.keys_of(act.job):
        world.seen.note_cancel(key)
        stage, _, job_id = key.partition("#")
        Canceller(parts.clock, parts.leases, parts.finisher).cancel(stage, job_id)


def stop_execution(world: "World", act: Act) -> None:
    """An operator stops what runs."""
    for execution in world.executions_of(act.job):
        if execution.is_running:
            world.sdk.client("stepfunctions").stop_execution(executionArn=execution.arn, cause="by hand")


def redrive_execution(world: "World", act: Act) -> None:
    """An operator redrives what was stopped: it goes on from the state that did not succeed, which is the Parallel state at the start."""
    for execution in world.executions_of(act.job):
        if execution.status == "ABORTED":
            execution.status, execution.stopped_at = "RUNNING", None
            world.seen.note_redrive(execution)
            world.engine.started(execution)


def redrive_dead_letters(world: "World", _act: Act) -> None:
    for stage, queue in world.queues.items():
        world.sdk.client("sqs").start_message_move_task(
            SourceArn=world.dead_letter_queues[stage].arn, DestinationArn=queue.arn
        )


def correct(world: "World", act: Act) -> None:
    """Somebody sees that a job is dead or cancelled, and submits under its id what they think is right."""
    for key in world.keys_of(act.job):
        stage, _, job_id = key.partition("#")
        row = world.seen.rows.get(key)
        if row is not None and row["state"]["S"] in ("DEAD", "CANCELLED"):
            body = corrected_of(world.jobs[act.job], act.work, world.bucket, job_id)
            world.sdk.client("sqs").send_message(QueueUrl=world.queues[stage].url, MessageBody=body)


def purge(world: "World", act: Act) -> None:
    """The queue of the job's stage; without a job the first one."""
    stage = CLEAN if "." in act.job else MAIN
    world.seen.is_purging = True
    try:
        world.sdk.client("sqs").purge_queue(QueueUrl=world.queues[stage].url)
    finally:
        world.seen.is_purging = False


def redeliver(world: "World", act: Act) -> None:
    """SQS delivers at least once: also what is in flight, or deleted a moment ago."""
    ids = world.seen.message_ids_of(act.job)
    if ids:
        found = world.seen.sent[ids[act.work % len(ids)]]
        world.aws.sqs.redeliver(world.queues[found.stage].url, found.message.id)
        world.seen.note_redelivery(found.message.id)
        world.mappings[found.stage].look()


def outage(world: "World", act: Act) -> None:
    world.injector.begin_outage(act.service, act.for_s)


KINDS: Mapping[str, Callable[["World", Act], None]] = {
    "submit": submit,
    "submit_invalid": submit_invalid,
    "cancel": cancel,
    "stop_execution": stop_execution,
    "redrive_execution": redrive_execution,
    "redrive_dead_letters": redrive_dead_letters,
    "correct": correct,
    "purge": purge,
    "redeliver": redeliver,
    "outage": outage,
}


def plan_act(world: "World", number: int, act: Act) -> None:
    """Let it happen at its time, from a shell of its own."""
    name = f"{act.kind}.{number}"
    host = Host(world.timeline, name, rng_of(world.plan.seed, name))

    def ended(error: BaseException | None, _answer: Any) -> None:
        world.acts_to_come -= 1
        # Whoever does it sees the error and can do it again; what it left half done is the product's to cope with.
        if error is not None and not isinstance(error, ClientError | BotoCoreError | LonghaulError):
            raise error

    host.crashed = lambda: ended(None, None)
    world.timeline.after(act.at_s, lambda: host.run(lambda: KINDS[act.kind](world, act), ended))
