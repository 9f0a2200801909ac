"""What people do to the system, and what SQS may do of itself: each an entry of a plan."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from functions.wiring import wiring
from longhaul.cancel import Canceller
from longhaul.domain.errors import LonghaulError
from tests.simulation.hosts import Host
from tests.simulation.plan import Act, Job
from tests.simulation.randomness import rng_of

if TYPE_CHECKING:
    from tests.simulation.world import World

INVALID_BODIES = ("not JSON", "[1, 2]", '{"job": "nobody-knows-it"}')


def body_of(job: Job, work: int, bucket: str) -> str:
    """The request that a producer sends. `params` tell the model of the runner what it is to do; to the product they are the job's."""
    request: dict[str, Any] = {
        "job": "flights_clean",
        "inputs": {"flights": f"s3://{bucket}/raw/{job.name}.csv"},
        "output": f"s3://{bucket}/out/{job.output or job.name}/",
        "params": {"name": job.name, "work": work},
    }
    if job.named:
        request["job_id"] = job.name
    if job.mode != "overwrite":
        request["mode"] = job.mode
    for name, seconds in (("timeout", job.timeout_s), ("stall_timeout", job.stall_timeout_s)):
        if seconds is not None:
            request[name] = f"{seconds}s"
    if job.max_attempts is not None:
        request["max_attempts"] = job.max_attempts
    return json.dumps(request)


def submit(world: "World", act: Act) -> None:
    body = body_of(world.jobs[act.job], act.work, world.bucket)
    world.sdk.client("sqs").send_message(QueueUrl=world.jobs_queue.url, MessageBody=body)


def submit_invalid(world: "World", act: Act) -> None:
    body = INVALID_BODIES[act.work % len(INVALID_BODIES)]
    world.sdk.client("sqs").send_message(QueueUrl=world.jobs_queue.url, MessageBody=body)


def cancel(world: "World", act: Act) -> None:
    parts = wiring()
    for key in world.keys_of(act.job):
        world.seen.note_cancel(key)
        Canceller(parts.clock, parts.leases, parts.finisher).cancel("main", key.partition("#")[2])


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
    world.sdk.client("sqs").start_message_move_task(
        SourceArn=world.dead_letter_queue.arn, DestinationArn=world.jobs_queue.arn
    )


def purge(world: "World", _act: Act) -> None:
    world.seen.is_purging = True
    try:
        world.sdk.client("sqs").purge_queue(QueueUrl=world.jobs_queue.url)
    finally:
        world.seen.is_purging = False


def redeliver(world: "World", act: Act) -> None:
    """SQS delivers at least once: also what is in flight, or deleted a moment ago."""
    ids = world.seen.message_ids_of(act.job)
    if ids:
        world.aws.sqs.redeliver(world.jobs_queue.url, ids[act.work % len(ids)])
        world.seen.note_redelivery(ids[act.work % len(ids)])
        world.mapping.look()


def outage(world: "World", act: Act) -> None:
    world.injector.begin_outage(act.service, act.for_s)


KINDS: Mapping[str, Callable[["World", Act], None]] = {
    "submit": submit,
    "submit_invalid": submit_invalid,
    "cancel": cancel,
    "stop_execution": stop_execution,
    "redrive_execution": redrive_execution,
    "redrive_dead_letters": redrive_dead_letters,
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
