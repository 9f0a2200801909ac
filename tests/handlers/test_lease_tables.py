"""The tables of effects in `docs/internals/lease.md`, each cell tried with the real handlers.

`tests/unit/test_lease_tables.py` tries the tables of decisions.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from longhaul.core import transitions
from longhaul.core.lease import Lease, Owed, State
from tests.builders import changed
from tests.handlers.life import Life
from tests.lease_page import table


def ended(life: Life, state: State, *owed: Owed) -> Lease:
    """A job that its first attempt ended, with what the row still owes."""
    row = life.running()
    if state is State.SUCCEEDED:
        life.commit(row)
        row = life.row()
    after = replace(
        row,
        state=state,
        owed=owed,
        settled_attempt=row.attempt.number,
        settled_at=now(life),
        last_class="failed",
    )
    life.stack.parts.leases.apply(transitions.settle(row, after))
    life.close(row, "ABORTED")
    return after


def released(life: Life, retry_in_s: int = 300) -> Lease:
    row = life.running()
    retry_at = now(life) + timedelta(seconds=retry_in_s)
    after = replace(
        row,
        state=State.RELEASED,
        settled_attempt=1,
        settled_at=now(life),
        failures=1,
        retry_at=retry_at,
    )
    life.stack.parts.leases.apply(transitions.settle(row, after))
    life.close(row, "FAILED")
    return after


def second_attempt(life: Life) -> Lease:
    """Start attempt 2; return the row that attempt 1 left."""
    before = released(life, retry_in_s=0)
    life.stack.aws.clock.advance(120)
    life.deliver()
    assert life.row().attempt.number == 2
    return before


def later(life: Life, state: State) -> Lease:
    """End attempt 2 in this state; return the row that attempt 1 left."""
    before = second_attempt(life)
    row = life.row()
    if state is State.SUCCEEDED:
        life.complete(row)
    after = replace(row, state=state, settled_attempt=2, settled_at=now(life), retry_at=now(life))
    life.stack.parts.leases.apply(
        transitions.settle(life.row(), changed(after, output=life.row().attempt.output))
    )
    return before


def marked(life: Life) -> Lease:
    life.running()
    return cancel(life)


def cancel(life: Life) -> Lease:
    return life.cancel()


def now(life: Life) -> Any:
    return life.stack.aws.clock.now()


def message_shows_in_s(life: Life) -> int | None:
    """Seconds until the only message is visible; None if there is no message."""
    messages = list(life.stack.sqs.queues[life.stack.jobs_url].messages.values())
    assert len(messages) <= 1
    return round(messages[0].shows_at - now(life).timestamp()) if messages else None


def absent(life: Life) -> Lease:
    """A running job whose row the table has lost; return the row."""
    row = life.running()
    life.stack.aws.dynamodb.tables["leases"].rows.clear()
    return row


SETTLES: dict[str, Callable[[Life], Lease]] = {
    "absent": absent,
    "RUNNING, mine": Life.running,
    "RUNNING, mine, its last failure": lambda life: life.running(max_attempts=1),
    "RUNNING, mine, output committed": Life.committed,
    "RUNNING, mine, cancel marked": marked,
    "RUNNING, another attempt": second_attempt,
    "RELEASED, by me": released,
    "RELEASED, by a later attempt": lambda life: later(life, State.RELEASED),
    "SUCCEEDED, by me": lambda life: ended(life, State.SUCCEEDED, Owed.PUBLISH, Owed.DELETE),
    "SUCCEEDED, by a later attempt": lambda life: later(life, State.SUCCEEDED),
    "DEAD, by me": lambda life: ended(life, State.DEAD, Owed.DEAD_LETTER, Owed.DELETE),
    "DEAD, by a later attempt": lambda life: later(life, State.DEAD),
    "CANCELLED, by me": lambda life: ended(life, State.CANCELLED, Owed.DELETE),
}


@pytest.mark.parametrize("line", table("An attempt ends"), ids=lambda line: line["row"])
def test_settle_does_what_the_page_says(life: Life, line: dict[str, str]) -> None:
    mine = SETTLES[line["row"]](life)
    table_before, shows_before = life.items(), message_shows_in_s(life)
    outcome = life.settle(mine, "exit-1")
    what, _, again = line["settle"].partition(" ")
    match what:
        case "SUPERSEDED":
            assert outcome == "SUPERSEDED"
            assert (life.items(), message_shows_in_s(life)) == (table_before, shows_before)
            assert life.stack.dead_letters() == []
            return
        case "released":
            assert (outcome, life.row().state, life.row().failures) == (
                "RELEASED",
                State.RELEASED,
                1,
            )
            assert message_shows_in_s(life) == round(
                (life.row().retry_at - now(life)).total_seconds()
            )
        case "dead-lettered":
            assert (outcome, life.row().state) == ("DEAD", State.DEAD)
            assert len(life.stack.dead_letters()) == 1
        case "published":
            assert (outcome, life.row().state) == ("SUCCEEDED", State.SUCCEEDED)
            assert life.published()
        case "cancelled":
            assert (outcome, life.row().state) == ("CANCELLED", State.CANCELLED)
        case unknown:
            pytest.fail(f"the page says {unknown}")
    if what != "released":
        assert life.row().is_finished
        assert message_shows_in_s(life) is None
    if again:
        assert changed(life.row(), owed=mine.owed, published_at=mine.attempt.published_at) == mine
    assert life.slots_taken() == 0


def queued(life: Life) -> None:
    """A job of which no message was ever claimed."""
    life.send()


CANCELS: dict[str, Callable[[Life], Any]] = {
    "absent": queued,
    "cancel mark before any claim": cancel,
    "RUNNING": Life.running,
    "RUNNING, output committed": Life.committed,
    "RUNNING, cancel marked": marked,
    "RELEASED": released,
    "SUCCEEDED": lambda life: ended(life, State.SUCCEEDED),
    "DEAD": lambda life: ended(life, State.DEAD),
    "CANCELLED": lambda life: ended(life, State.CANCELLED),
}


@pytest.mark.parametrize("line", table("A cancel"), ids=lambda line: line["row"])
def test_cancel_does_what_the_page_says(life: Life, line: dict[str, str]) -> None:
    CANCELS[line["row"]](life)
    before = [without_cancel(each) for each in life.items()]
    life.stack.aws.clock.advance(1)
    answer = cancel(life)
    assert answer == life.row()
    match line["cancel"]:
        case "leave a mark for the claim to find":
            life.deliver()
            assert (life.row().state, message_shows_in_s(life)) == (State.CANCELLED, None)
            assert life.stack.executions() == []
        case "mark: the runner stops at its next report, the heartbeat at its next beat":
            assert answer.state is State.RUNNING
            assert life.report(answer).cancel_requested_at
            assert life.beat(answer)["next"] == "JobCancelled"
            assert life.settle(answer, "cancelled") == "CANCELLED"
        case "keep its time: it ends, and nothing follows it":
            assert (answer.cancelled_at, answer.cancel_requested_at) == (now(life), None)
            assert life.settle(answer, "cancelled") == "SUCCEEDED"
            assert life.published()
        case "CANCELLED at once, the message deleted":
            assert (answer.state, answer.owed, message_shows_in_s(life)) == (
                State.CANCELLED,
                (),
                None,
            )
        case "keep its time":
            assert answer.cancelled_at == now(life)
            assert [without_cancel(each) for each in life.items()] == before
        case unknown:
            pytest.fail(f"the page says {unknown}")


def without_cancel(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "cancelled_at"}


def overdue(life: Life, *, execution: str | None) -> None:
    """A lease without a beat for an hour; its execution has this status, or never started."""
    row = life.running()
    if execution is None:
        life.stack.sfn.executions.clear()
    elif execution != "RUNNING":
        life.close(row, execution)
    life.stack.aws.clock.advance(3600)


def missing(life: Life, waited: timedelta) -> None:
    """A released job whose message has been lost for this long."""
    released(life, retry_in_s=0)
    life.stack.sqs.purge_queue(QueueUrl=life.stack.jobs_url)
    life.stack.aws.clock.advance(waited.total_seconds())


def waiting_for_a_slot(life: Life) -> None:
    """A released job that waits a day for a slot, because other jobs have them all."""
    released(life, retry_in_s=0)
    (slots,) = (item for item in life.items() if "running" in item)
    slots["running"] = {"N": str(life.stage.slots)}
    for _ in range(24):
        life.stack.aws.clock.advance(3600)
        life.deliver()
    assert life.row().state is State.RELEASED


def fresh(life: Life) -> None:
    life.running()


def owing(life: Life) -> None:
    ended(life, State.DEAD, Owed.DEAD_LETTER, Owed.DELETE)


SWEEPS: dict[str, Callable[[Life], Any]] = {
    "RUNNING, lease kept up": fresh,
    "RUNNING, lease overdue, execution runs": lambda life: overdue(life, execution="RUNNING"),
    "RUNNING, lease overdue, execution closed": lambda life: overdue(life, execution="ABORTED"),
    "RUNNING, lease overdue, never started": lambda life: overdue(life, execution=None),
    "RELEASED, back-off to come": released,
    "RELEASED, waiting for a slot": waiting_for_a_slot,
    "RELEASED, message missing for 6 h": lambda life: missing(life, timedelta(hours=6)),
    "ended, something owed": owing,
    "ended, nothing owed": lambda life: ended(life, State.DEAD),
    "cancel mark before any claim": cancel,
}


@pytest.mark.parametrize("line", table("A sweep"), ids=lambda line: line["row"])
def test_sweep_does_what_the_page_says(life: Life, line: dict[str, str]) -> None:
    def table_without_metrics() -> list[dict[str, Any]]:
        """All items, without what a sweep writes for its metrics and about the stages."""
        return [
            {name: value for name, value in item.items() if name != "blocked_since"}
            for item in life.items()
            if item["key"] != {"S": "stages"}
        ]

    SWEEPS[line["row"]](life)
    before = table_without_metrics()
    done = life.sweep()
    match line["the sweep"]:
        case "nothing":
            assert (done, table_without_metrics()) == ({"looked_at": 1}, before)
        case "not looked at":
            assert (done, table_without_metrics()) == ({}, before)
        case "settle as interrupted":
            assert done["settled"] == 1
            assert (life.row().state, life.row().interruptions) == (State.RELEASED, 1)
        case "start it":
            assert done == {"looked_at": 1, "started": 1}
            assert life.stack.executions() == [life.row().execution_input]
        case "send a copy that renews it":
            assert done == {"looked_at": 1, "renewed": 1}
            (record,) = life.receive()
            assert (
                record["messageAttributes"]["longhaul_renews"]["stringValue"]
                == life.row().receive.message_id
            )
            assert life.sweep() == {"looked_at": 1}  # for the next six hours
        case "finish":
            assert done == {"looked_at": 1, "finished": 1}
            assert len(life.stack.dead_letters()) == 1
            assert message_shows_in_s(life) is None
        case unknown:
            pytest.fail(f"the page says {unknown}")


def test_page_has_every_case() -> None:
    tried = {"An attempt ends": SETTLES, "A cancel": CANCELS, "A sweep": SWEEPS}
    assert {title: {line["row"] for line in table(title)} for title in tried} == {
        title: set(cases) for title, cases in tried.items()
    }
