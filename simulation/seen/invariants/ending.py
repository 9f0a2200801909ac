"""The end of a world: nothing is left, and no code of ours has failed."""

from datetime import timedelta
from traceback import extract_tb
from typing import Any

from longhaul.core.history import KEPT
from simulation.aws.stepfunctions.client import Execution
from simulation.seen.checks import invariant
from simulation.seen.record import Seen
from simulation.worlds.endings import OWN_FAULTS
from simulation.worlds.plan import Job
from simulation.worlds.stages import is_too_many

_OWED_S = 3_600
_AROUND_WORK_S = 300  # a task's start, its boot, its uploads
_SWEEP = timedelta(minutes=6)  # and the time that one takes


@invariant("L1", "the end", "every message ends deleted or in the dead-letter queue")
def queue_is_empty(seen: Seen, _: None) -> str | None:
    left = [each for queue in seen.world.queues.values() for each in queue.messages]
    return f"{len(left)} messages left, such as {_described(seen, left[0])}" if left else None


@invariant("L6", "the end", "all that is owed gets done: no row is left running, released or owing")
def nothing_is_owed(seen: Seen, _: None) -> str | None:
    for key in sorted(seen.open_rows):
        row = seen.rows[key]
        owed = [each["S"] for each in row.get("owed", {}).get("L", [])]
        return f"{key} is {row['state']['S']}, owes {owed}"
    return None


@invariant("L6", "no longer owed", "nothing is owed for more than an hour without an alarm")
def owed_with_an_alarm(seen: Seen, key: str) -> str | None:
    since = seen.owed_since[key]
    due = since + timedelta(seconds=_OWED_S)
    # An alarm of its own says that no sweep runs. The first sweep after an outage repairs.
    sweeps = [age for at, age in seen.sweeps if due + _SWEEP <= at < seen.now - _SWEEP]
    if not sweeps or max(sweeps) >= _OWED_S:
        return None
    return f"{key} owed since {since}, and of {len(sweeps)} sweeps none said so"


@invariant("S10", "the end", "no task, execution, slot or pending upload is left")
def nothing_is_left(seen: Seen, _: None) -> str | None:
    world = seen.world
    if world.containers.running:
        return f"tasks run: {[each.host.name for each in world.containers.running.values()]}"
    if world.engine.runs:
        return f"executions run: {sorted(world.engine.runs)}"
    if world.tiny is not None and world.tiny.running:
        return f"{world.tiny.running} invocations run"
    rows = world.aws.dynamodb.tables[world.settings.leases_table].rows
    for stage in world.queues:
        slots = rows.get((f"slots#{stage}", "slots"))
        item = (slots.item if slots else None) or {}
        # Without any claim, the item may count throttling and waiting alone.
        if (taken := item.get("running", {"N": "0"})["N"]) != "0":
            return f"{taken} slots of {stage} are taken"
    pending = {
        upload.id: upload.key for upload in world.aws.s3.buckets[world.bucket].uploads.values()
    }
    left = sorted(pending[each] for each in pending.keys() & seen.listed)
    # An upload in no list was created by a call whose answer was lost, or just before a crash. The
    # bucket's lifecycle rule ends it.
    return f"pending uploads: {left}" if left else None


@invariant("S1", "row written", "no row expires while something is left to do, and each does then")
def rows_expire_in_time(_seen: Seen, _before: Any, row: Any) -> str | None:
    # A row whose tree's end is still to be told expires all the same.
    is_left = not row.get("open", {"S": "#TREE"})["S"].endswith("#TREE")
    if ("ttl" in row) is not is_left:
        return None
    return f"{row['key']['S']} is {row['state']['S']}, and its time to live is {row.get('ttl')}"


@invariant("S11", "the end", "every attempt is remembered, with its end and outcome")
def attempts_are_remembered(seen: Seen, _: None) -> str | None:
    items = seen.world.aws.dynamodb.tables[seen.world.settings.leases_table].rows
    for key, row in seen.rows.items():
        if key in seen.expired:
            continue
        for n in range(max(1, int(row["attempt"]["N"]) - KEPT + 1), int(row["attempt"]["N"]) + 1):
            kept = items.get((key, f"attempt#{n % KEPT:02}"))
            item = (kept and kept.item) or {}
            if item.get("attempt", {}).get("N") != str(n) or not item.keys() >= {
                "ended_at",
                "kind",
                "state",
            }:
                return f"attempt {n} of {key} is remembered as {item}"
    return None


@invariant(
    "L3", "the end", "a poison message reaches the dead-letter queue after exactly max_attempts"
)
def poison_dies_in_time(seen: Seen, _: None) -> str | None:
    if seen.world.injector.fired or any(
        act.kind != "submit" or act.work for act in seen.world.plan.acts
    ):
        return None
    for letter in seen.dead_letters:
        key = letter.reason.get("key")
        if key is None or letter.reason["class"] in (
            "conflicting_job_id",
            "permanent",
            "interrupted",
        ):
            continue
        job = seen.job_of(key)
        wanted = job.max_attempts or seen.world.plan.max_attempts
        failures = [each.faults_of_job for each in seen.own_faults(key, letter.reason["run"])]
        # A process that hangs before it reports the job's own phase may not count as a failure; nor
        # one with a hung JVM whose reports look old, because clocks differ.
        excused = {"hangs", "jvm_hangs"} if seen.world.plan.mix.skew_s else {"hangs"}
        uncounted = sum(not excused.isdisjoint(each) for each in failures)
        if job.parts:
            # It is no failure to come to the end of a function's longest invocation with something
            # stored.
            row = seen.rows.get(key, {})
            uncounted += int(row.get("resumptions", {"N": "0"})["N"])
        if not wanted <= len(failures) <= wanted + uncounted:
            return f"{key} died after {len(failures)} failures, not {wanted}"
    return None


@invariant("L1", "the end", "every job that was asked for is published, dead-lettered or cancelled")
def every_job_has_ended(seen: Seen, _: None) -> str | None:
    for sent in seen.sent.values():
        if sent.work is None or seen.asked.is_cancelled(sent) or sent.key in seen.purged_keys:
            continue
        is_led_on = any(each.leads_on_from(sent) for each in seen.sent_by_key[sent.key])
        is_led_on = is_led_on or seen.families.is_cut_off(sent.parent or "")  # and was sent late
        is_published = seen.success_of(sent.key, sent.work) is not None
        if not (is_published or seen.letters_of(sent) or is_led_on):
            return f"{_described(seen, sent.message.id)} came to nothing"
    return None


@invariant("L1", "the end", "an attempt that its job fails does not publish")
def failures_are_not_published(seen: Seen, _: None) -> str | None:
    for token in seen.published:
        work = seen.attempts[token].work
        ending = seen.job_of(token.key).ending(token.attempt, work or 0)
        if work is not None and ending.kind in OWN_FAULTS:
            return f"{token} was published, and its ending is {ending.kind}"
    return None


@invariant("L1", "the end", "where nothing goes wrong, every job is published by its first attempt")
def calm_is_uneventful(seen: Seen, _: None) -> str | None:
    plan, world = seen.world.plan, seen.world
    if world.injector.fired or any(act.kind != "submit" or act.work for act in plan.acts):
        return None
    if world.aws.ecs.launches.throttled:
        return None
    good = {
        job.name
        for job in seen.world.jobs.values()
        if not job.endings and _has_time(job) and not is_too_many(job, plan)
    }
    for sent in seen.sent.values():
        attempts = seen.attempts.of(sent.key)
        if sent.job in good and len(attempts) != 1:
            return f"{sent.key} took {len(attempts)} attempts"
        if (
            sent.job in good
            and sent.work is not None
            and seen.success_of(sent.key, sent.work) is None
        ):
            return f"{sent.key} was not published"
    return None


def _has_time(job: Job) -> bool:
    return job.timeout_s is None or job.timeout_s >= 1.5 * job.work_s + _AROUND_WORK_S


def _described(seen: Seen, message_id: str) -> str:
    sent = seen.sent[message_id]
    return f"{message_id} ({sent.key}, work {sent.work})"


_MISTAKES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RecursionError,
    TypeError,
)


@invariant("L11", "code failed", "no error is a mistake of the product's own code")
def no_mistake(seen: Seen, error: BaseException) -> str | None:
    """An error of AWS is answered by a later try; this one would come again."""
    if not isinstance(error, _MISTAKES):
        return None
    at = extract_tb(error.__traceback__)[-1]
    if at.name == "stage_of_queue" and seen.retired:
        return None  # the last batch of a stage that was taken out: its queue goes too
    return f"{type(error).__name__}: {error}, at {at.filename.rpartition('/')[2]}:{at.lineno}"


@invariant("L11", "execution ended", "every state gets what it reads")
def no_state_fails_at_runtime(_seen: Seen, execution: Execution) -> str | None:
    if execution.error != "States.Runtime":
        return None
    return f"{execution.name} failed: {execution.cause}"
