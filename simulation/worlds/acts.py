"""The acts of a plan: what people do to the system, and what SQS may do by itself."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from longhaul.core.errors import LonghaulError
from longhaul.core.lease import Lease, job_key, key_hash
from longhaul.core.message import Message
from longhaul.core.request import read_request
from longhaul.operations.backfill import Backfiller, Planned
from longhaul.operations.cancel import Canceller
from longhaul.operations.rerun import Rerunner, why_not
from longhaul.operations.submit import Sent, Submission, SubmitReport, Submitter
from longhaul.operations.tree import TreeCanceller, unwell
from longhaul.operations.wait import Awaited, Waiter
from longhaul.pipelines.backfill import Backfill
from longhaul.pipelines.trees import Trees
from longhaul.wiring import wiring
from simulation.aws.emr_serverless.client import WAITING
from simulation.aws.platform.hosts import Host
from simulation.aws.platform.job_process import attempt_in
from simulation.worlds.plan import Act
from simulation.worlds.randomness import rng_of
from simulation.worlds.requests import (
    INVALID_BODIES,
    PRODUCERS_JOB,
    body_of,
    corrected_of,
    forged_of,
    hostile_of,
)
from simulation.worlds.secrets import value_of
from simulation.worlds.stages import CLEAN, MAIN
from simulation.worlds.upheavals import expire, leave_newer_fields, retire

if TYPE_CHECKING:
    from simulation.worlds.world import World


def submit(world: "World", act: Act) -> None:
    body = body_of(world.jobs[act.job], act.work, world.bucket)
    world.sdk.client("sqs").send_message(QueueUrl=world.queues[MAIN].url, MessageBody=body)


def submit_twice(world: "World", act: Act) -> None:
    """A producer sends a request twice in one batch."""
    body = body_of(world.jobs[act.job], act.work, world.bucket)
    entries = [{"Id": str(n), "MessageBody": body} for n in range(2)]
    world.sdk.client("sqs").send_message_batch(QueueUrl=world.queues[MAIN].url, Entries=entries)


def submit_invalid(world: "World", act: Act) -> None:
    """A producer sends what can never run, under the id of a job where the act names one."""
    body = INVALID_BODIES[act.work % len(INVALID_BODIES)]
    if act.job:
        body = json.dumps(json.loads(body) | {"job_id": act.job})
    world.sdk.client("sqs").send_message(QueueUrl=world.queues[MAIN].url, MessageBody=body)


def submit_hostile(world: "World", act: Act) -> None:
    body, attributes = hostile_of(world.jobs[act.job], act.work, world.bucket)
    world.sdk.client("sqs").send_message(
        QueueUrl=world.queues[MAIN].url, MessageBody=body, MessageAttributes=attributes
    )


def submit_forged(world: "World", act: Act) -> None:
    """A sender claims to follow from a job, as soon as that has a row."""
    for key in world.keys_of(act.job):
        if (row := world.seen.rows.get(key)) is not None and CLEAN in world.queues:
            stage, body = forged_of(world.jobs[act.job], act.work, row, world.bucket)
            world.sdk.client("sqs").send_message(QueueUrl=world.queues[stage].url, MessageBody=body)


def lose(world: "World", act: Act) -> None:
    """Somebody deletes what is kept beside a job's row: its request, and what it emitted."""
    for key in world.keys_of(act.job):
        world.seen.lost.add(key)
        digest = key_hash(key)
        for kind in ("requests", "emitted"):
            for name in list(world.seen.objects()):
                if name.startswith(f"longhaul/{kind}/{digest}/"):
                    world.sdk.client("s3").delete_object(Bucket=world.bucket, Key=name)


def cancel(world: "World", act: Act) -> None:
    canceller = _NotingCanceller(world)
    for key in world.keys_of(act.job):
        stage, _, job_id = key.partition("#")
        canceller.cancel(stage, job_id)


def cancel_tree(world: "World", act: Act) -> None:
    """An operator cancels a job and all that descends from it."""
    for row in _rows_of(world, act):
        began_at = world.seen.now
        TreeCanceller(_trees(), _NotingCanceller(world), wiring().backfills).cancel(row)
        if row.lineage is None:
            world.seen.asked.trees_cancelled_before[row.key] = began_at


def retry_tree(world: "World", act: Act) -> None:
    """An operator runs again what died of a tree, or was cancelled."""
    for row in _rows_of(world, act):
        _retry(unwell(_trees().walk(row)))


def _retry(rows: Iterable[Lease]) -> None:
    rerunner = Rerunner(wiring(), _trees())
    for row in rows:
        if why_not(row) is None:
            rerunner.send(rerunner.plan(row))


def backfill(world: "World", act: Act) -> None:
    """An operator sends the jobs whose names begin with this one's, and interrupts the command.

    `work`: how many of them may go on at a time; 0 for all.
    """
    parts, key = wiring(), job_key(MAIN, act.job)
    if MAIN not in {stage.name for stage in parts.settings.stages}:
        return  # it was taken out, and the command says so
    names = [job.name for job in world.plan.jobs if job.name.startswith(f"{act.job}/")]
    rows = parts.leases.load_many(job_key(MAIN, name) for name in names)
    planned = []
    for name in names:
        body = body_of(world.jobs[name], 0, world.bucket)
        request = read_request(body)
        row = rows.get(job_key(MAIN, name))
        awaited = Awaited(job_key(MAIN, name), request.fingerprint(), row)
        planned.append(Planned(Submission(name, name, body, request), awaited))
    submitter = _OneByOne(parts.clock, parts.rng, parts.queue)
    waiter = Waiter(parts.clock, parts.leases)
    backfiller = Backfiller(parts.clock, waiter, parts.backfills, submitter)
    next(backfiller.run(parts.settings.stage(MAIN), key, planned, act.work or len(names)))


def cancel_backfill(world: "World", act: Act) -> None:
    """An operator cancels all jobs that a backfill has sent, and what descends from them."""
    for found in _backfills_of(act):
        backfills = wiring().backfills
        TreeCanceller(_trees(), _NotingCanceller(world), backfills).cancel_backfill(found)


def retry_backfill(_world: "World", act: Act) -> None:
    """An operator runs again what died of a backfill, or was cancelled."""
    for found in _backfills_of(act):
        _retry(unwell(_trees().walk_backfill(found)))


def _backfills_of(act: Act) -> Iterable[Backfill]:
    return wiring().backfills.find_backfills([job_key(MAIN, act.job)]).values()


class _OneByOne(Submitter):
    """Without threads, of which a simulated host has none."""

    def submit(self, queue_url: str, submissions: Sequence[Submission], *_: Any) -> SubmitReport:
        for each in submissions:
            self.queue.send(queue_url, Message(each.body, {}))
        return SubmitReport(sent=[Sent(each, "") for each in submissions])


def rerun(world: "World", act: Act) -> None:
    """An operator runs a job again in its place, or all that began with it.

    `work` is a parameter's new value.
    """
    rerunner = Rerunner(wiring(), _trees())
    params = {"work": act.work} if act.work else {}
    for row in _rows_of(world, act):
        wanted = rerunner.root(row) if act.kind == "rerun_tree" else row
        rerunner.send(rerunner.plan(wanted, params=params))


class _NotingCanceller(Canceller):
    """Notes what somebody has cancelled, and when: that covers what was sent before it began."""

    def __init__(self, world: "World") -> None:
        parts = wiring()
        super().__init__(parts.leases, parts.finisher)
        object.__setattr__(self, "_world", world)

    def cancel(self, stage: str, job_id: str) -> Lease:
        seen: Any = self._world.seen  # type: ignore[attr-defined]
        began_at = seen.now
        lease = super().cancel(stage, job_id)
        seen.asked.cancelled_before[lease.key] = began_at
        return lease


def _rows_of(world: "World", act: Act) -> list[Lease]:
    found = wiring().leases.load_many(world.keys_of(act.job))
    return [row for row in found.values() if not row.is_mark]


def _trees() -> Trees:
    parts = wiring()
    return Trees(parts.settings, parts.leases, parts.joins)


def stop_execution(world: "World", act: Act) -> None:
    """An operator stops the running execution."""
    for execution in world.executions_of(act.job):
        if execution.is_running:
            world.sdk.client("stepfunctions").stop_execution(
                executionArn=execution.arn, cause="by hand"
            )


def cancel_job_run(world: "World", act: Act) -> None:
    """An operator cancels the job's runs on EMR Serverless."""
    keys = set(world.keys_of(act.job))
    for application in world.aws.emr_serverless.applications.values():
        for run in application.in_states((*WAITING, "RUNNING")):
            if attempt_in(run.environment).key in keys:
                world.sdk.client("emr-serverless").cancel_job_run(
                    applicationId=application.id, jobRunId=run.id
                )


def redrive_execution(world: "World", act: Act) -> None:
    """An operator redrives a stopped execution.

    It continues from the state that did not succeed: the Parallel state, at the start.
    """
    for execution in world.executions_of(act.job):
        if execution.status == "ABORTED":
            execution.status, execution.stopped_at = "RUNNING", None
            world.seen.redriven.add(execution.arn)
            world.engine.started(execution)


def redrive_dead_letters(world: "World", _act: Act) -> None:
    for stage, queue in world.queues.items():
        world.sdk.client("sqs").start_message_move_task(
            SourceArn=world.dead_letter_queues[stage].arn, DestinationArn=queue.arn
        )


def correct(world: "World", act: Act) -> None:
    """Submit a corrected request under the id of a job that is dead or cancelled."""
    for key in world.keys_of(act.job):
        row = world.seen.rows.get(key)
        if row is not None and row["state"]["S"] in ("DEAD", "CANCELLED"):
            _resubmit(world, act, key)


def resubmit(world: "World", act: Act) -> None:
    """Submit a request under the id of a job, whatever it is doing.

    Under a follow-on's also before that was claimed.
    """
    for key in world.keys_of(act.job):
        _resubmit(world, act, key)


def _resubmit(world: "World", act: Act, key: str) -> None:
    stage, _, job_id = key.partition("#")
    body = corrected_of(world.jobs[act.job], act.work, world.bucket, job_id)
    world.sdk.client("sqs").send_message(QueueUrl=world.queues[stage].url, MessageBody=body)


def renewer_dies(world: "World", _act: Act) -> None:
    """A dispatcher dies after it has sent a copy, or a dead letter: the message stays too."""
    world.injector.doom("dispatcher", "SendMessage")


def outage(world: "World", act: Act) -> None:
    world.injector.begin_outage(act.service, act.for_s)


def lose_released(world: "World", _act: Act) -> None:
    """The message of the job that is released next is lost; then a sweeper dies as it sends a copy.

    It dies after the send, before it notes that. Dispatchers die as they receive the copy, until
    the next sweep has sent a second one.
    """
    world.injector.doom("sweeper", "SendMessage")
    for _ in range(3):
        world.injector.doom("dispatcher", "BatchGetItem")

    def lose_messages(key: str) -> None:
        queue = world.queues[key.partition("#")[0]]
        world.seen.is_purging = True
        for message_id in list(world.seen.live_by_key[key]):
            queue.remove(queue.messages[message_id])
        world.seen.is_purging = False

    def soon(key: str) -> None:
        world.timeline.after(0.5, lambda: lose_messages(key))

    world.seen.waiting_for_release.append(soon)


def purge(world: "World", act: Act) -> None:
    """Purge the queue of the job's stage, or the first stage's when the act names no job."""
    stage = _stage_of(act)
    world.seen.is_purging = True
    try:
        world.sdk.client("sqs").purge_queue(QueueUrl=world.queues[stage].url)
    finally:
        world.seen.is_purging = False


def redeliver(world: "World", act: Act) -> None:
    """SQS delivers at least once: a message in flight, or one just deleted, comes again."""
    ids = [each.message.id for each in world.seen.sent.values() if each.job == act.job]
    if ids:
        found = world.seen.sent[ids[act.work % len(ids)]]
        if (
            found.key in world.seen.expired
            or world.queues[found.stage].url not in world.aws.sqs.queues
        ):
            return  # months have gone by, or its stage was taken out
        world.aws.sqs.redeliver(world.queues[found.stage].url, found.message.id)
        world.seen.note_redelivery(found.message.id)
        world.mappings[found.stage].look()


def replace_manifest(world: "World", act: Act) -> None:
    """Another tool writes its own marker over the manifest of the job's output."""
    output = json.loads(body_of(world.jobs[act.job], act.work, world.bucket))["output"]
    key = f"{output.removeprefix(f's3://{world.bucket}/').rstrip('/')}/_SUCCESS"
    world.aws.s3.put_object(Bucket=world.bucket, Key=key, Body=b"")


def change(world: "World", act: Act) -> None:
    """Deploy other code of the job, or replace what it reads: `service` says which."""
    world.versions[act.service, act.job] += 1


def set_secret(world: "World", act: Act) -> None:
    """Somebody makes or rotates the secret of the stages, or deletes it: `work` is its version."""
    world.set_secret(value_of(act.work) if act.kind == "set_secret" else None)


def narrow(world: "World", act: Act) -> None:
    """Deploy settings without the job that requests name; deploy the usual ones `for_s` later."""
    usual = world.settings.jobs
    world.seen.was_narrowed = True
    world.redeploy(jobs=tuple(name for name in usual if name != PRODUCERS_JOB))
    world.timeline.after(act.for_s, lambda: world.redeploy(jobs=usual))


def pause(world: "World", act: Act) -> None:
    """An operator pauses the stage of the job, and resumes it `for_s` later."""
    stage = world.stages[_stage_of(act)]
    world.seen.operated.add(stage.name)
    _later(world, act, lambda: wiring().slots.resume(stage, world.seen.now))
    wiring().slots.pause(stage, world.seen.now)


def set_slots(world: "World", act: Act) -> None:
    """An operator gives the stage of the job `work` slots, and `for_s` later those deployed."""
    stage = world.stages[_stage_of(act)]
    world.seen.operated.add(stage.name)
    _later(world, act, lambda: wiring().slots.set_slots(stage, stage.slots))
    wiring().slots.set_slots(stage, act.work)


def _stage_of(act: Act) -> str:
    return CLEAN if "." in act.job else MAIN


def _later(world: "World", act: Act, do: Callable[[], None]) -> None:
    """Do it `for_s` later, and again each minute until it has been done."""
    world.acts_to_come += 1

    def begin(number: int) -> None:
        name = f"{act.kind}.{act.at_s}.{number}"
        host = Host(world.timeline, name, rng_of(world.plan.seed, name))

        def ended(error: BaseException | None, _answer: Any) -> None:
            if error is None:
                world.acts_to_come -= 1
            elif isinstance(error, ClientError | BotoCoreError):
                again()
            else:
                raise error

        def again() -> None:
            world.timeline.after(60.0, lambda: begin(number + 1))

        host.crashed = again
        host.run(do, ended)

    world.timeline.after(act.for_s, lambda: begin(1))


def roll_back(world: "World", act: Act) -> None:
    """Deploy this version over a newer one, which has written the job's row and lists."""
    for key in world.keys_of(act.job):
        leave_newer_fields(world, key)
    world.platform.redeployed()


KINDS: Mapping[str, Callable[["World", Act], None]] = {
    "submit": submit,
    "roll_back": roll_back,
    "pause": pause,
    "set_slots": set_slots,
    "submit_twice": submit_twice,
    "submit_invalid": submit_invalid,
    "submit_hostile": submit_hostile,
    "submit_forged": submit_forged,
    "lose": lose,
    "cancel": cancel,
    "cancel_tree": cancel_tree,
    "retry_tree": retry_tree,
    "backfill": backfill,
    "cancel_backfill": cancel_backfill,
    "retry_backfill": retry_backfill,
    "rerun_tree": rerun,
    "rerun": rerun,
    "stop_execution": stop_execution,
    "cancel_job_run": cancel_job_run,
    "redrive_execution": redrive_execution,
    "redrive_dead_letters": redrive_dead_letters,
    "correct": correct,
    "resubmit": resubmit,
    "lose_released": lose_released,
    "renewer_dies": renewer_dies,
    "purge": purge,
    "redeliver": redeliver,
    "outage": outage,
    "narrow": narrow,
    "change": change,
    "set_secret": set_secret,
    "delete_secret": set_secret,
    "retire": retire,
    "expire": expire,
    "replace_manifest": replace_manifest,
}


def plan_act(world: "World", number: int, act: Act) -> None:
    """Schedule an act at its time, in a shell of its own."""
    name, seed = f"{act.kind}.{number}", world.plan.seed
    skew_s = world.plan.mix.skew_s * rng_of(seed, f"{name} clock").uniform(-1, 1)
    host = Host(world.timeline, name, rng_of(seed, name), skew_s)

    def ended(error: BaseException | None, _answer: Any) -> None:
        world.acts_to_come -= 1
        # The person sees the error and can repeat the act. What it left half done, the product
        # has to repair.
        if error is not None and not isinstance(error, ClientError | BotoCoreError | LonghaulError):
            raise error

    def begin() -> None:
        host.run(lambda: KINDS[act.kind](world, act), ended)

    host.crashed = lambda: ended(None, None)
    world.timeline.after(act.at_s, begin)
