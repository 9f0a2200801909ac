"""Attempts: no two work at once without a fault, and none that lives is given up."""

from datetime import timedelta
from typing import get_args

from longhaul.core.settings import SizeName
from longhaul.core.verdict import ExitCode
from simulation.aws.platform.job_process import JobProcess
from simulation.aws.service import Call
from simulation.aws.stepfunctions.client import Execution
from simulation.seen.checks import invariant
from simulation.seen.record import Seen
from simulation.seen.sightings import Row, Token

# Faults that excuse no overlap: the product stops a task itself, and slowness is no failure.
_NO_EXCUSE = frozenset({"not stopped", "slow/6"})
_RIGHTS = "outage:rights"
_OF_EMR = frozenset({"no vCPU", "stopping"})  # come about by themselves
# How a runner names its own end.
_OWN_ENDS = frozenset(code.name.lower() for code in ExitCode)
_MINUTE_S = 60.0
_FULL = frozenset({"oom_killed", "oom_in_jvm"})
# Its time was up, or it was given up, before that was known.
_OTHERWISE_ENDED = frozenset({"timed_out", "stalled"})


@invariant(
    "S5",
    "container began",
    "no two attempts of a job overlap unless a fault was injected that can hide one",
)
def no_overlap(seen: Seen, container: JobProcess) -> str | None:
    if (
        {fault.kind for _, fault in seen.world.injector.fired} - _NO_EXCUSE
        or seen.redelivered
        or seen.redriven
    ):
        return None
    for other in seen.world.containers.running_of(container.attempt.key):
        if other is not container and other.has_worked and not other.is_cut_off:
            return f"{container.host.name} begins while {other.host.name} still works"
    return None


@invariant(
    "S5", "attempt ended", "no attempt is given up while its execution runs and does not settle it"
)
def none_given_up_alive(seen: Seen, row: Row, token: Token) -> str | None:
    execution = seen.execution_of(token)
    if execution is None or not execution.is_running or token in seen.settling or seen.redriven:
        return None
    return f"{token} is {row['state']['S']}, and its execution runs"


@invariant(
    "S5",
    "attempt ended",
    "an outage ends no attempt that works: it goes on, and reports when it can",
)
def works_through_outages(seen: Seen, row: Row, token: Token) -> str | None:
    if row.get("last_class", {}).get("S") not in ("stalled", "interrupted"):
        return None
    attempt, world = seen.attempts[token], seen.world
    faults = world.injector.fired_since(attempt.started_at - timedelta(seconds=1_000))
    if _is_stopped(seen) or seen.redriven or any(fault.kind != "outage" for fault in faults):
        return None
    working = [
        each.host.name
        for each in attempt.containers
        if each.host.alive and each.has_worked and each.ending.kind == "done"
    ]
    return f"{working[0]} works, and is given up: {row['last_error']['S']}" if working else None


@invariant(
    "S9",
    "attempt ended",
    "an attempt that AWS refuses for want of a right is told from one for which it has no room",
)
def wants_are_told_apart(seen: Seen, row: Row, token: Token) -> str | None:
    injector, stage = seen.world.injector, token.key.partition("#")[0]
    if not injector.lacks_right(stage) or injector.is_out("capacity"):
        return None
    if seen.world.settings.stage_or_removed(stage).is_removed:  # any failure is the last one
        return None
    attempt, kind = seen.attempts[token], row.get("last_class", {}).get("S")
    if attempt.is_placed or _is_stopped(seen) or seen.redriven:
        return None
    others = [
        each
        for each in injector.fired_since(attempt.started_at)
        if not each.site.startswith(_RIGHTS)
    ]
    if others or kind in ("refused", "cancelled"):
        return None
    return f"AWS refuses {token}, and nobody is called: it ends as {kind}"


@invariant(
    "S9",
    "attempt ended",
    "a task that is denied what each needs waits until that is mended, as a refusal",
)
def denials_wait(seen: Seen, row: Row, token: Token) -> str | None:
    attempt, kind = seen.attempts[token], row.get("last_class", {}).get("S")
    faults = seen.world.injector.fired_since(attempt.started_at)
    if _is_stopped(seen) or seen.redriven or any(each.kind != "outage" for each in faults):
        return None
    if kind in ("refused", "cancelled", "superseded"):
        return None
    for container in attempt.containers:
        denied = next(filter(_is_of_each_job, container.host.facts.get("denied", ())), None)
        is_told = container.end_kind in _OWN_ENDS and not _others_are_denied(seen)
        if denied and (kind != "interrupted" or is_told):
            return f"{token} was denied {denied.operation}, and ends as {kind}"
    return None


@invariant(
    "S9",
    "attempt ended",
    "a driver that waits for executors has no room: nothing counts against it",
)
def waits_for_executors(seen: Seen, row: Row, token: Token) -> str | None:
    attempt, kind = seen.attempts[token], row.get("last_class", {}).get("S")
    faults = seen.world.injector.fired_since(attempt.started_at)
    if _is_stopped(seen) or seen.redriven or any(each.kind not in _OF_EMR for each in faults):
        return None
    # By a clock that is minutes wrong a runner's last report is too old.
    if kind not in ("failed", "interrupted", "stalled") or seen.world.plan.mix.skew_s > _MINUTE_S:
        return None
    waiting = [each.host.name for each in attempt.containers if each.waits_for_executors]
    return f"{waiting[0]} waits for executors, and its attempt ends as {kind}" if waiting else None


def _others_are_denied(seen: Seen) -> bool:
    """Whether settle may be denied as the task was: then nobody hears how the task ended."""
    outages = (act for act in seen.world.plan.acts if act.kind == "outage")
    return any(not act.service.endswith("@task") for act in outages)


def _is_of_each_job(call: Call) -> bool:
    """Whether it reads the request or a secret, registers, or commits."""
    is_request = str(call.arguments.get("Key", "")).startswith("longhaul/requests/")
    sets = call.arguments.get("UpdateExpression", "").partition("REMOVE")[0]
    is_secret = call.operation == "GetSecretValue"
    return is_request or is_secret or "#n_task_arn = " in sets or "#n_output = " in sets


@invariant(
    "L13", "execution started", "a job that ran out of memory goes on with more, if there is more"
)
def grows_when_full(seen: Seen, token: Token) -> str | None:
    before = seen.attempts.get(token._replace(attempt=token.attempt - 1))
    if before is None or not before.faults_of_job & _FULL or seen.redriven:
        return None
    if seen.world.injector.fired_since(before.started_at) or _is_stopped(seen):
        return None
    if seen.rows[token.key]["last_class"]["S"] in _OTHERWISE_ENDED:
        return None
    sizes = get_args(SizeName)
    old, new = (seen.size_of(each) for each in (before.token, token))
    stage = seen.world.stages[token.key.partition("#")[0]]
    if sizes.index(new) > sizes.index(old) or old == stage.limits.max_size:
        return None
    return f"{token} has the size {new}, and {old} was too small"


def _is_stopped(seen: Seen) -> bool:
    return any(act.kind in ("stop_execution", "cancel_job_run") for act in seen.world.plan.acts)


@invariant("S15", "execution ended", "no execution reaches the limit of its history")
def history_has_room(_seen: Seen, execution: Execution) -> str | None:
    is_full = "maximum number of history events" in (execution.cause or "")
    return f"{execution.name} has reached the limit of its history" if is_full else None


@invariant(
    "S5",
    "container over",
    "of an attempt's tasks, started by RunTasks whose answers were lost, only one works",
)
def one_task_works(seen: Seen, container: JobProcess) -> str | None:
    if not container.has_worked:
        return None
    others = seen.attempts.of(container.attempt.key)
    given = next(each for each in others if container in each.containers).containers
    workers = [each.host.name for each in given if each.has_worked]
    return f"{' and '.join(workers)} worked" if len(workers) > 1 else None
