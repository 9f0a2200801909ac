"""How attempts are settled: the table in `docs/internals/architecture.md`, and more."""

import json
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from longhaul.core.descent import Group, Lineage
from longhaul.core.lease import Lease, Owed, RecordedResult, State
from longhaul.core.settings import RequestLimits, RuntimeSettings, TaskSettings, TaskSize
from longhaul.core.settlement import (
    Settlement,
    decide_settle,
    why_stop,
)
from longhaul.core.verdict import Evidence, OutcomeClass, StoppedTask
from longhaul.engines.listed import ENGINES
from tests.builders import NOW, OUTPUT, changed, running, settings, stage
from tests.layers import ROOT
from tests.lease_page import table

PAGE = ROOT / "docs" / "internals" / "architecture.md"
LATER = NOW + timedelta(hours=1)
TASK = "arn:aws:ecs:us-east-1:123456789012:task/Longhaul/t"
STARTED = changed(running(), progress_at=NOW, task_arn=TASK)
AT_WORK = changed(STARTED, progress={"phase": "running"})
COMMITTED = changed(AT_WORK, output=OUTPUT)
CUT_OFF = changed(AT_WORK, reported_at=NOW)
CANCELLED = replace(AT_WORK, cancel_requested_at=NOW)


def task(exit_code: int | None = None, **described: Any) -> dict[str, Any]:
    """A task's description, as Step Functions has it."""
    container = {"Name": "job"} | ({} if exit_code is None else {"ExitCode": exit_code})
    return {"TaskArn": TASK, "Containers": [container], **described}


def failed(exit_code: int | None = None, **described: Any) -> Evidence:
    return Evidence("States.TaskFailed", json.dumps(task(exit_code, **described)))


def refused(words: str) -> Evidence:
    return Evidence("ECS.InvalidParameterException", words)


def settled(
    row: Lease,
    evidence: Evidence,
    stopped: StoppedTask | None = None,
    *,
    known: RuntimeSettings | None = None,
    seed: int = 1,
    **of_stage: Any,
) -> Settlement:
    """The settlement at LATER, in a stage like that."""
    known = known or settings(stages=(stage(**of_stage),))
    return decide_settle(row, evidence, stopped, ENGINES, known, LATER, random.Random(seed))


def sized(row: Lease, size: str, engine: str = "fargate") -> Lease:
    execution = row.input.model_copy(update={"size": size, "engine": engine})
    return replace(row, execution_input=execution.model_dump_json())


OOM = failed(137, StoppedReason="OutOfMemoryError: Container killed due to memory usage")
STALLED = Evidence("JobStalled", "no progress for 15m")
TIMED_OUT = Evidence("States.Timeout")
FAILED = failed(1)
SPOT = failed(143, StopCode="SpotInterruption")
NO_ROOM = refused("Capacity is unavailable at this time.")

# By the cell "what happened" of the page.
ENDS: dict[str, list[tuple[Lease, Evidence]]] = {
    "the row holds a committed output, whatever ended the task": [
        (COMMITTED, Evidence(task=task(0))),
        (COMMITTED, failed(137)),
        (COMMITTED, STALLED),
        (replace(COMMITTED, cancel_requested_at=NOW), Evidence("JobCancelled")),
        (COMMITTED, Evidence.execution_closed("ABORTED")),
    ],
    "exit 0, nothing committed": [(AT_WORK, Evidence(task=task(0)))],
    "the job says that it cannot succeed (exit 65), bad parameters, missing input": [
        (AT_WORK, failed(65)),
        (changed(STARTED, result=RecordedResult(1, "permanent", "no such column")), failed(65)),
    ],
    "out of memory": [
        (AT_WORK, OOM),
        (changed(AT_WORK, result=RecordedResult(1, "out_of_memory", "heap")), failed(1)),
    ],
    "too little disk, known before the inputs come or met by Spark": [(AT_WORK, failed(74))],
    "another exit code": [(AT_WORK, failed(1)), (AT_WORK, failed(137))],
    "longer than its timeout": [(AT_WORK, TIMED_OUT)],
    "no progress": [(AT_WORK, STALLED)],
    "either of the last two while it fetches inputs, boots Spark or publishes, and nothing has "
    "moved for a minute: it waited for AWS": [(STARTED, STALLED), (STARTED, TIMED_OUT)],
    "no report at all for the stall timeout, or for the last four minutes of its time: the task is "
    "cut off, or hangs as a whole": [(CUT_OFF, STALLED), (CUT_OFF, TIMED_OUT)],
    "Spot, maintenance, infrastructure, never started, stopped by hand": [
        (AT_WORK, SPOT),
        (AT_WORK, failed(143, StopCode="TerminationNotice")),
        (AT_WORK, failed(143, StopCode="InfrastructureHealth")),
        (AT_WORK, failed(143, StopCode="UserInitiated")),
    ],
    "no task came to be: no capacity, a full quota, a throttle, ECS out of order": [
        (running(), NO_ROOM),
        (running(), refused("You've reached the limit on the number of vCPUs")),
        (running(), refused("Rate exceeded")),
        (running(), Evidence("ECS.ServerException", "")),
    ],
    "AWS refuses the task for another reason: a right, a name, a subnet, an image that is gone, "
    "out of reach or for another platform, or unknown words; or the task may not read "
    "its request, or not write to its row": [
        (changed(STARTED, result=RecordedResult(1, "refused", "AWS denies")), failed(77)),
        (running(), failed(77)),
        (running(), Evidence("ECS.AccessDeniedException", "not authorized")),
        (running(), failed(StopCode="TaskFailedToStart", StoppedReason="CannotPull: i/o timeout")),
        (running(), refused("words that nobody knows")),
    ],
    "the account may not run one task of that size, or the Region has none": [
        (running(), refused("The requested configuration is above your limit")),
        (running(), Evidence("ECS.UnsupportedFeatureException", "")),
    ],
    "cancelled": [(CANCELLED, Evidence("JobCancelled"))],
    # Settle writes nothing for it: a row that the attempt does not own is not decided on.
    "the lease was lost": [],
}
DEAD = (State.DEAD, (Owed.DEAD_LETTER, Owed.DELETE), "small")
# By the cell "then": the row's state, what it owes, the size of the next attempt. Settle also
# stops the task where the cell says so, and lowers the limit.
THEN = {
    "publish unless that is done, delete": (
        State.SUCCEEDED,
        (Owed.PUBLISH, Owed.DELETE),
        "small",
    ),
    "release": (State.RELEASED, (), "small"),
    "release with the next size": (State.RELEASED, (), "medium"),
    "release with the next size; dead-letter where there is none": (State.RELEASED, (), "medium"),
    "slow the stage down, release": (State.RELEASED, (), "small"),
    "as above": (State.RELEASED, (), "small"),
    "dead-letter now": DEAD,
    "delete": (State.CANCELLED, (Owed.DELETE,), "small"),
}
LINES = table("The attempt is settled", PAGE)


def test_each_end_of_the_page_is_tried() -> None:
    assert [line["what happened"] for line in LINES] == list(ENDS)


@pytest.mark.parametrize(
    ("line", "row", "evidence"),
    [
        pytest.param(line, *end, id=f"{line['class'].strip('`')}-{number}")
        for number, line in enumerate(LINES)
        for end in ENDS[line["what happened"]]
    ],
)
def test_each_end_of_an_attempt_is_settled_as_the_page_says(
    line: dict[str, str], row: Lease, evidence: Evidence
) -> None:
    settlement = settled(row, evidence)
    after, then = settlement.lease, line["then"]
    assert f"`{after.last_class}`" in line["class"]
    assert (after.state, after.owed, after.input.size) == THEN[then.removeprefix("stop the task, ")]
    assert (why_stop(row, evidence, ENGINES) is not None) == then.startswith("stop the task")
    if line["counts as a failure"] != "\N{EN DASH}":
        counts = line["counts as a failure"] == "yes"
        assert after.failures - row.failures == counts
    assert after.interruptions - row.interruptions == (after.last_class == "interrupted")
    assert (after.settled_attempt, after.settled_at) == (1, LATER)


@pytest.mark.parametrize(
    ("row", "evidence", "known", "then"),
    [
        (AT_WORK, FAILED, {"failures": 1}, (State.RELEASED, 2, 0)),
        (AT_WORK, FAILED, {"failures": 2}, (State.DEAD, 3, 0)),
        (AT_WORK, SPOT, {"failures": 2}, (State.RELEASED, 2, 1)),
        (AT_WORK, SPOT, {"interruptions": 18}, (State.RELEASED, 0, 19)),
        (AT_WORK, SPOT, {"interruptions": 19}, (State.DEAD, 0, 20)),
        (AT_WORK, failed(74), {"failures": 2, "interruptions": 19}, (State.RELEASED, 2, 19)),
        (running(), NO_ROOM, {"failures": 2, "interruptions": 19}, (State.RELEASED, 2, 19)),
        (AT_WORK, failed(65), {}, (State.DEAD, 1, 0)),
    ],
)
def test_failures_and_interruptions_each_have_a_limit(
    row: Lease, evidence: Evidence, known: dict[str, Any], then: tuple[State, int, int]
) -> None:
    after = settled(replace(row, **known), evidence).lease
    assert (after.state, after.failures, after.interruptions) == then


@pytest.mark.parametrize(
    ("row", "evidence", "most_s"),
    [
        (AT_WORK, SPOT, 0),  # another machine takes its place
        (replace(AT_WORK, interruptions=1), SPOT, 10),
        (replace(AT_WORK, interruptions=2), SPOT, 20),
        (AT_WORK, FAILED, 10),
        (replace(AT_WORK, failures=1), FAILED, 20),
        # It waits as after a first failure, however many there were.
        (replace(AT_WORK, failures=2), failed(74), 10),
        (changed(running(), claimed_at=LATER), NO_ROOM, 10),
        (changed(running(), claimed_at=LATER - timedelta(minutes=2)), NO_ROOM, 120),
        (running(), NO_ROOM, 900),
    ],
)
def test_the_back_off_grows_with_the_tries_or_with_the_time_without_a_place(
    row: Lease, evidence: Evidence, most_s: int
) -> None:
    settlements = [settled(row, evidence, seed=seed) for seed in range(400)]
    waits = [each.retry_in_s or 0 for each in settlements]
    assert most_s - most_s // 50 <= max(waits) <= most_s
    assert [each.lease.retry_at for each in settlements] == [
        LATER + timedelta(seconds=wait) for wait in waits
    ]


@pytest.mark.parametrize(
    ("evidence", "stopped", "least_s"),
    [
        (FAILED, None, 1),
        (STALLED, StoppedTask(is_gone=True), 150),  # the stop timeout, and a margin
        (STALLED, StoppedTask(is_gone=False, gone_by=LATER + timedelta(minutes=15)), 900),
        (STALLED, StoppedTask(is_gone=False, gone_by=LATER + timedelta(seconds=200.1)), 201),
        (STALLED, StoppedTask(is_gone=False, gone_by=LATER + timedelta(seconds=1)), 150),
    ],
)
def test_the_next_attempt_waits_until_the_task_of_this_one_is_gone(
    evidence: Evidence, stopped: StoppedTask | None, least_s: int
) -> None:
    assert (
        min(settled(AT_WORK, evidence, stopped, seed=seed).retry_in_s or 0 for seed in range(100))
        == least_s
    )


def test_a_longer_back_off_than_the_stop_takes_stays() -> None:
    tried = replace(AT_WORK, failures=9, max_attempts=20)
    assert (
        max(
            settled(tried, STALLED, StoppedTask(is_gone=True), seed=seed).retry_in_s or 0
            for seed in range(100)
        )
        > 800
    )


@pytest.mark.parametrize(
    ("evidence", "own_end", "then"),
    [
        (STALLED, failed(65), ("permanent", State.DEAD)),
        (TIMED_OUT, SPOT, ("interrupted", State.RELEASED)),
        # The task ended because of the cancel, or had no part in it.
        (Evidence("JobCancelled"), FAILED, ("cancelled", State.CANCELLED)),
        (Evidence.execution_closed("ABORTED"), failed(65), ("interrupted", State.RELEASED)),
    ],
)
def test_a_task_without_progress_may_have_ended_by_itself(
    evidence: Evidence, own_end: Evidence, then: tuple[str, State]
) -> None:
    """Step Functions did not know of it yet."""
    stopped = StoppedTask(is_gone=True, ended_as=own_end)
    after = settled(AT_WORK, evidence, stopped).lease
    assert (after.last_class, after.state) == then


def test_the_time_that_is_paid_for_is_of_the_end_that_counts() -> None:
    own_end = failed(1, PullStartedAt=1_000, StoppedAt=3_000)
    after = settled(AT_WORK, STALLED, StoppedTask(is_gone=True, ended_as=own_end))
    times = (after.lease.attempt.task_from, after.lease.attempt.task_until)
    assert [at.timestamp() if at else None for at in times] == [1, 3]
    assert after.error == own_end.error


@pytest.mark.parametrize(
    ("evidence", "error"),
    [(Evidence(task=task(0)), None), (FAILED, "States.TaskFailed"), (STALLED, "JobStalled")],
)
def test_settlement_names_the_error_that_ended_the_attempt(
    evidence: Evidence, error: str | None
) -> None:
    assert settled(AT_WORK, evidence).error == error


@pytest.mark.parametrize("evidence", [failed(73), Evidence("LeaseLost", "held by another")])
def test_an_attempt_that_owns_its_lease_and_hears_that_it_lost_it_is_interrupted(
    evidence: Evidence,
) -> None:
    """A second task of the attempt withdrew: the first one may still run."""
    assert why_stop(AT_WORK, evidence, ENGINES) is OutcomeClass.INTERRUPTED
    after = settled(AT_WORK, evidence).lease
    assert (after.state, after.last_class) == (State.RELEASED, "interrupted")
    assert (after.last_error or "").startswith("a second task withdrew: ")
    assert after.retry_at == LATER + timedelta(seconds=150)


@pytest.mark.parametrize("evidence", [FAILED, SPOT, NO_ROOM, STALLED, OOM])
def test_a_cancelled_job_ends_however_its_task_did(evidence: Evidence) -> None:
    after = settled(CANCELLED, evidence).lease
    assert (after.state, after.owed, after.last_class) == (
        State.CANCELLED,
        (Owed.DELETE,),
        "cancelled",
    )


@pytest.mark.parametrize(
    ("row", "of_stage", "owed"),
    [
        (COMMITTED, {}, (Owed.PUBLISH, Owed.DELETE)),
        (changed(COMMITTED, published_at=NOW), {}, (Owed.DELETE,)),
        (COMMITTED, {"next": ("other",)}, (Owed.PUBLISH, Owed.FOLLOW_ONS, Owed.DELETE)),
        (COMMITTED, {"next": ("joined",)}, (Owed.PUBLISH, Owed.FOLLOW_ONS, Owed.DELETE)),
        (
            changed(COMMITTED, output=replace(OUTPUT, emitted={"clean": 1})),
            {},
            (Owed.PUBLISH, Owed.FOLLOW_ONS, Owed.DELETE),
        ),
        (replace(COMMITTED, opens=("joined",)), {}, (Owed.PUBLISH, Owed.FOLLOW_ONS, Owed.DELETE)),
        (
            replace(
                COMMITTED,
                lineage=Lineage(
                    root="first#a",
                    parent="first#a",
                    groups=(Group(of="first#a", run=1, n=0, size=2, opens=("joined",)),),
                ),
            ),
            {},
            (Owed.PUBLISH, Owed.FOLLOW_ONS, Owed.DELETE),
        ),
    ],
    ids=[
        "plain",
        "published by the runner",
        "next",
        "next is a join",
        "emitted",
        "opens a join",
        "is in a join",
    ],
)
def test_a_success_owes_its_publish_what_follows_and_the_delete_in_that_order(
    row: Lease, of_stage: dict[str, Any], owed: tuple[Owed, ...]
) -> None:
    joined = stage(name="joined", join=True)
    known = settings(stages=(stage(**of_stage), stage(name="other"), joined))
    assert settled(row, Evidence(task=task(0)), known=known).lease.owed == owed


def test_a_success_forgets_the_error_of_an_earlier_attempt() -> None:
    tried_before = replace(COMMITTED, last_error="out of memory")
    assert settled(tried_before, Evidence(task=task(0))).lease.last_error is None


def test_a_success_leads_where_the_settings_lead_at_that_time() -> None:
    known = settings(stages=(stage(next=("other",)), stage(name="other")))
    row = replace(COMMITTED, leads_to=("of the time of its claim",))
    assert settled(row, Evidence(task=task(0)), known=known).lease.leads_to == ("other",)


@pytest.mark.parametrize(
    ("row", "evidence", "then"),
    [
        (COMMITTED, FAILED, (State.SUCCEEDED, "succeeded")),
        (CANCELLED, Evidence("JobCancelled"), (State.CANCELLED, "cancelled")),
        (AT_WORK, SPOT, (State.DEAD, "permanent")),
        (running(), NO_ROOM, (State.DEAD, "permanent")),
    ],
)
def test_in_a_removed_stage_a_success_counts_and_any_failure_is_the_last(
    row: Lease, evidence: Evidence, then: tuple[State, str]
) -> None:
    row = replace(row, leads_to=("at its claim",))
    after = settled(row, evidence, known=settings(stages=(stage(name="other"),))).lease
    assert (after.state, after.last_class) == then
    # The settings lead nowhere from it any more: what follows goes where they led.
    assert after.leads_to == ("at its claim",)
    assert Owed.FOLLOW_ONS in after.owed or after.state is not State.SUCCEEDED


@pytest.mark.parametrize(("has_tiny", "then"), [(True, "tiny"), (False, "small")])
def test_a_tiny_job_goes_on_as_tiny_while_the_stack_has_that_size(
    has_tiny: bool,  # noqa: FBT001 - a case
    then: str,
) -> None:
    sizes = {"tiny": TaskSize(cpu=1741, memory_mib=3008, disk_gib=8)} if has_tiny else {}
    known = settings(tasks=TaskSettings(sizes=sizes))
    row = sized(running(), "tiny", "lambda")
    unplaced = Evidence("Lambda.TooManyRequestsException", "Rate exceeded")
    after = settled(row, unplaced, known=known).lease
    assert (after.state, after.input.size) == (State.RELEASED, then)
    assert after.input.engine == ("lambda" if has_tiny else "fargate")


def test_only_a_tiny_job_that_goes_on_gets_another_size_in_a_stack_without_tiny() -> None:
    dead = settled(sized(running(), "tiny", "lambda"), failed(65)).lease
    # A newer version may have added a field to the input, which is kept byte for byte.
    newer = AT_WORK.execution_input.replace("{", '{"newer":1,', 1)
    released = settled(replace(AT_WORK, execution_input=newer), FAILED).lease
    assert (dead.state, dead.input.size) == (State.DEAD, "tiny")
    assert (released.state, released.execution_input) == (State.RELEASED, newer)


@pytest.mark.parametrize("evidence", [OOM, failed(74)], ids=["memory", "disk"])
@pytest.mark.parametrize(
    ("size", "largest", "next_size"),
    [
        ("small", "xlarge", "medium"),
        ("medium", "large", "large"),
        ("large", "large", None),
        ("xlarge", "medium", None),  # a deploy allows less since
    ],
)
def test_a_job_that_ran_out_grows_by_a_size_up_to_the_largest_of_its_stage(
    evidence: Evidence, size: str, largest: Any, next_size: str | None
) -> None:
    row = sized(AT_WORK, size)
    after = settled(row, evidence, limits=RequestLimits(max_size=largest)).lease
    assert after.input.size == (next_size or size)
    is_over = next_size is None and evidence != OOM  # more memory may be had the next time
    assert after.state is (State.DEAD if is_over else State.RELEASED)


@pytest.mark.parametrize(
    ("engine", "advice"),
    [
        ("fargate", "use the engine emr-serverless, or split the inputs over several jobs"),
        ("emr-serverless", "split the inputs over several jobs"),
    ],
)
def test_too_little_disk_at_the_largest_size_is_the_end_and_names_the_way_out(
    engine: str, advice: str
) -> None:
    recorded = RecordedResult(1, "out_of_disk", "No space left on device")
    row = changed(sized(AT_WORK, "medium", engine), result=recorded)
    after = settled(row, failed(74), limits=RequestLimits(max_size="medium")).lease
    assert (after.state, after.last_class, after.failures) == (State.DEAD, "out_of_disk", 1)
    assert after.owed == (Owed.DEAD_LETTER, Owed.DELETE)
    assert after.last_error == (
        f"medium is the largest size that the stage allows; {advice} (No space left on device)"
    )


WEEK = timedelta(days=7)


def worked(progress: dict[str, Any]) -> Lease:
    """It had waited for a week before it reported this."""
    row = running(unplaced_since=LATER - WEEK)
    return changed(row, progress=progress, progress_at=LATER - timedelta(minutes=5))


@pytest.mark.parametrize(
    ("row", "since", "state"),
    [
        (running(), NOW, State.RELEASED),
        (running(unplaced_since=LATER - WEEK), LATER - WEEK, State.DEAD),
        (
            running(unplaced_since=LATER - WEEK + timedelta(seconds=1)),
            LATER - WEEK + timedelta(seconds=1),
            State.RELEASED,
        ),
        # An attempt that lost its executors had a place until then.
        (worked({"tasks": [1, 2]}), LATER - timedelta(minutes=5), State.RELEASED),
        # A driver that never had an executor, and progress that does not say.
        (worked({"tasks": [0, 9]}), LATER - WEEK, State.DEAD),
        (worked({"tasks": "3"}), LATER - WEEK, State.DEAD),
        (worked({"phase": "waiting"}), LATER - WEEK, State.DEAD),
    ],
)
def test_a_job_is_not_placed_for_a_week_at_most(row: Lease, since: Any, state: State) -> None:
    after = settled(row, NO_ROOM).lease
    assert (after.unplaced_since, after.state) == (since, state)
    if state is State.DEAD:
        assert (after.last_error or "").startswith("not placed for 7d, at last: ECS.")
        assert after.owed == (Owed.DEAD_LETTER, Owed.DELETE)


@pytest.mark.parametrize("evidence", [NO_ROOM, Evidence("ECS.AccessDeniedException", "no right")])
def test_refusals_come_less_than_15_minutes_apart_until_they_end_the_job(
    evidence: Evidence,
) -> None:
    row, now, refusals = running(failures=2, interruptions=19), NOW, 0
    known = settings()
    while row.state is not State.DEAD:
        row = replace(row, state=State.RUNNING)
        rng = random.Random(refusals)
        settlement = decide_settle(row, evidence, None, ENGINES, known, now, rng)
        row, refusals = settlement.lease, refusals + 1
        now += timedelta(seconds=max(1, settlement.retry_in_s or 0))
    assert (row.failures, row.interruptions) == (2, 19)
    assert row.settled_at is not None
    assert WEEK <= row.settled_at - NOW <= WEEK + timedelta(minutes=15)
    assert 1_000 < refusals < 2_000


def test_task_that_starts_ends_the_time_without_a_place() -> None:
    long_ago = NOW - timedelta(days=6, hours=23)
    assert settled(replace(AT_WORK, unplaced_since=long_ago), SPOT).lease.unplaced_since is None


def test_long_error_is_cut() -> None:
    long = changed(AT_WORK, result=RecordedResult(1, "failed", "x" * 10_000))
    assert 797 <= len(settled(long, FAILED).lease.last_error or "") <= 800


# The row of a job whose attempt has ended.
