"""The end of a backfill, with `tree_ended`: told once all that it was to send has ended."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from longhaul.core.lease import Lease
from longhaul.core.request import read_request
from longhaul.operations.backfill import Backfiller, Course, Planned
from longhaul.operations.dead_letters import DeadLetterOffice, Which
from longhaul.operations.errors import BackfillCancelledError
from longhaul.operations.submit import Submission, Submitter
from longhaul.operations.tree import unwell
from longhaul.operations.wait import Awaited, Waiter
from longhaul.pipelines.backfill import Backfill
from simulation.aws.service import Answer, Call, Proceed
from tests.builders import body, there
from tests.builders import stage as stage_of
from tests.faults import failing
from tests.handlers.life import Killed
from tests.handlers.stack import Context, Stack
from tests.handlers.test_stages import commit, dispatched, emitting, queued, settled
from tests.handlers.test_tree_ends import TOPIC, die, telling, told_after_a_sweep
from tests.handlers.test_trees import canceller, rerun, trees_of

KEY = "main#oct"
TELLING = {"notify": TOPIC, "tree_ended": True}
STAGES = (stage_of(next=("clean",), **TELLING), queued("clean", job="flights_clean"))


@pytest.fixture
def stack() -> Iterator[Stack]:
    with telling(STAGES) as found:
        yield found


def swept(stack: Stack, context: Context) -> list[dict[str, Any]]:
    """The events about the backfill that were sent, after another sweep."""
    return [each for each in told_after_a_sweep(stack, context) if each.get("job_id") == "oct"]


def command(
    stack: Stack, values: Sequence[str], slots: int = 100, **fields: Any
) -> Iterator[Course]:
    """The command, which goes on at each look."""
    keys = [f"{KEY}/{value}" for value in values]
    rows = stack.parts.leases.load_many(keys)
    planned = []
    for value, key in zip(values, keys, strict=True):
        text = body(job_id=f"oct/{value}", **fields)
        submission = Submission(value, f"oct/{value}", text, read_request(text))
        planned.append(Planned(submission, Awaited(key, None, rows.get(key))))
    parts = stack.parts
    submitter = Submitter(parts.clock, parts.rng, parts.queue)
    waiter = Waiter(parts.clock, parts.leases)
    backfiller = Backfiller(parts.clock, waiter, parts.backfills, submitter)
    return backfiller.run(stack.settings.stage("main"), KEY, planned, slots)


def send(stack: Stack, values: Sequence[str], slots: int = 100, **fields: Any) -> None:
    """The command, which is interrupted after its first look."""
    next(command(stack, values, slots, **fields))


def backfill(stack: Stack) -> Backfill:
    return stack.parts.backfills.find_backfills([KEY])[KEY]


def succeed(stack: Stack, rows: Sequence[Lease], context: Context, emitted: Any = None) -> None:
    for row in rows:
        nothing = {"clean": []} if row.stage == "main" else None
        commit(stack, row, emitted or nothing, seal="5ea1")
        settled(row, context)


def run(stack: Stack, context: Context, name: str = "main", emitted: Any = None) -> None:
    succeed(stack, dispatched(stack, stack.settings.stage(name), context), context, emitted)


def retry(stack: Stack) -> None:
    stack.aws.clock.advance(600)
    for row in unwell(trees_of(stack).walk_backfill(backfill(stack))):
        rerun(stack, row)


def test_its_end_is_told_once_all_of_it_has_ended(stack: Stack, context: Context) -> None:
    send(stack, ["01", "02"])
    assert swept(stack, context) == []
    run(stack, context, emitted=emitting(1))
    assert swept(stack, context) == []
    run(stack, context, "clean")
    (told,) = swept(stack, context)
    assert told == {
        "version": 1,
        "event": "tree_ended",
        "id": told["id"],
        "stage": "main",
        "job_id": "oct",
        "label": None,
        "tags": {"backfill": "oct"},
        "run": None,
        "unsent": 0,
        "sequence": told["sequence"],
        "outcome": "SUCCEEDED",
        "jobs": {"main": {"SUCCEEDED": 2}, "clean": {"SUCCEEDED": 2}},
        "unwell": [],
        "ended_at": told["ended_at"],
    }
    assert swept(stack, context) == [told]
    assert not backfill(stack).is_watched


def test_what_a_command_had_not_sent_when_it_died_is_no_job_of_it(
    stack: Stack, context: Context
) -> None:
    """It was noted before it was sent, and a cancel waited for it for ever."""
    send(stack, ["01", "02"], slots=1)

    run(stack, context)
    assert swept(stack, context) == [], "the command has still to send"
    with (
        contextlib.suppress(Killed),
        failing(stack.aws.gate, lambda _: Killed(), "SendMessageBatch"),
    ):
        send(stack, ["01", "02"])
    stack.aws.clock.advance(60)
    canceller(stack).cancel_backfill(backfill(stack))
    (told,) = swept(stack, context)
    assert (told["jobs"], told["unsent"]) == ({"main": {"SUCCEEDED": 1}}, 1)


def test_a_cancel_covers_what_was_sent_since_the_backfill_was_read(
    stack: Stack, context: Context
) -> None:
    send(stack, ["01", "02", "03"], slots=1)
    before = backfill(stack)
    send(stack, ["01", "02", "03"], slots=2)
    stack.aws.clock.advance(1)
    canceller(stack).cancel_backfill(before)
    assert dispatched(stack, stack.settings.stage("main"), context) == []


def test_a_command_cancels_what_it_sends_at_the_moment_of_a_cancel(
    stack: Stack, context: Context
) -> None:
    send(stack, ["01"])

    def around(call: Call, proceed: Proceed) -> Answer:
        answer = proceed()
        if call.operation == "SendMessageBatch":
            stack.aws.clock.advance(1)
            stack.parts.backfills.note_cancel(KEY, stack.aws.clock.now())
        return answer

    stack.aws.gate.around = around
    with pytest.raises(BackfillCancelledError, match="0 requests were not sent"):
        send(stack, ["01", "02"])
    stack.aws.gate.around = None
    assert dispatched(stack, stack.settings.stage("main"), context) == []
    assert backfill(stack).values == ("01", "02")


def test_it_ends_once_more_after_a_retry_and_after_more_is_sent(
    stack: Stack, context: Context
) -> None:
    send(stack, ["01", "02"])
    first, second = dispatched(stack, stack.settings.stage("main"), context)
    succeed(stack, [first], context)
    die(second, context)
    (told,) = swept(stack, context)
    assert (told["outcome"], [each["state"] for each in told["unwell"]]) == ("DEAD", ["DEAD"])
    retry(stack)
    run(stack, context)
    _, again = swept(stack, context)
    assert again["outcome"] == "SUCCEEDED"
    send(stack, ["01", "02", "03"])
    assert len(swept(stack, context)) == 2
    run(stack, context)
    *_, last = swept(stack, context)
    assert last["jobs"] == {"main": {"SUCCEEDED": 3}}
    assert told["sequence"] < again["sequence"] < last["sequence"]
    assert len({told["id"], again["id"], last["id"]}) == 3


def test_a_cancel_covers_what_was_sent_again(stack: Stack, context: Context) -> None:
    """It met a job that had died, and its message ran."""
    send(stack, ["01", "02"])
    first, second = dispatched(stack, stack.settings.stage("main"), context)
    succeed(stack, [first], context)
    die(second, context)
    stack.aws.clock.advance(1)
    send(stack, ["01", "02"])
    stack.aws.clock.advance(1)
    assert [row.key for row in canceller(stack).cancel_backfill(backfill(stack))] == [second.key]
    assert dispatched(stack, stack.settings.stage("main"), context) == []
    (told,) = swept(stack, context)
    assert told["jobs"] == {"main": {"SUCCEEDED": 1, "DEAD": 1}}


def test_a_refused_job_that_is_sent_again_ends_it_once_more(stack: Stack, context: Context) -> None:
    send(stack, ["01"], timeout="2d")
    parts, main = stack.parts, stack.settings.stage("main")
    assert dispatched(stack, main, context) == []
    (told,) = swept(stack, context)
    assert told["outcome"] == "DEAD"
    limits = main.limits.model_copy(update={"max_timeout_s": 604_800})
    stack.redeploy(limits=limits)
    stack.aws.clock.advance(1)
    office = DeadLetterOffice(parts.clock, parts.queue, stack.aws.client("sqs"))
    assert [why for _, why in office.redrive(main, Which())] == [None]
    run(stack, context)
    assert [each["outcome"] for each in swept(stack, context)] == ["DEAD", "SUCCEEDED"]


def test_more_that_is_noted_during_a_look_keeps_it_open(stack: Stack, context: Context) -> None:
    send(stack, ["01"])
    run(stack, context)
    before = backfill(stack)
    usual = stack.parts.leases

    class Meanwhile:
        def __getattr__(self, name: str) -> Any:
            return getattr(usual, name)

        def load_many(self, keys: Any) -> Any:
            now = stack.aws.clock.now()
            stack.parts.backfills.note_sent(KEY, ["02"], now, watches=True)
            return usual.load_many(keys)

    ends = replace(stack.parts.tree_ends, context=replace(stack.parts.context, leases=Meanwhile()))
    assert not ends.tell_end(before, stack.settings.stage("main"))
    assert [each for each in swept(stack, context) if each["job_id"] == "oct"] == []


def test_a_look_at_one_that_goes_on_reads_two_rows(stack: Stack, context: Context) -> None:
    send(stack, [f"{n:03}" for n in range(250)], slots=250)
    assert swept(stack, context) == []
    watch = there(backfill(stack).watch)
    assert watch.waits_for is not None
    calls = len(stack.aws.gate.calls)
    swept(stack, context)
    read = [call for call in list(stack.aws.gate.calls)[calls:] if call.operation == "BatchGetItem"]
    assert len(read) <= 3  # the backfill, the job that went on, and whether it was refused
