"""Rows that a newer version wrote before a rollback."""

import json
from typing import Any

import pytest

from functions import heartbeat, settle
from longhaul.core import transitions
from longhaul.core.descent import Group, Lineage
from longhaul.core.lease import RecordedResult, State
from longhaul.core.store.item import key_of
from longhaul.core.transitions import Change, Clause
from tests.builders import changed
from tests.events import event
from tests.handlers.life import Life
from tests.handlers.stack import Context, Stack

DAY_S = 86_400


def item(stack: Stack, job_id: str) -> dict[str, Any]:
    table = stack.aws.dynamodb.tables[stack.settings.leases_table]
    (found,) = (
        row.item
        for row in table.rows.values()
        if row.item and row.item["item"]["S"] == "lease" and key_of(row.item).endswith(f"#{job_id}")
    )
    return dict(found)


def write(stack: Stack, changed_item: dict[str, Any]) -> None:
    stack.aws.dynamodb.put_item(TableName=stack.settings.leases_table, Item=changed_item)


def make_unreadable(stack: Stack, job_id: str, attribute: str = "output") -> dict[str, Any]:
    """As a version would that stores this attribute in a form of its own."""
    before = item(stack, job_id)
    write(stack, before | {attribute: {"S": '["no such form"]'}})
    return before


FUTURE = {"colour": {"S": "green"}, "weights": {"M": {"a": {"N": "1"}}}}
FAILED = event("settle", "exit-1")


@pytest.fixture
def newer(stack: Stack) -> str:
    """A job whose row has attributes that this version does not know; its id."""
    job_id = stack.claim(attempt=1).job_id
    write(stack, item(stack, job_id) | FUTURE)
    return job_id


def test_job_of_another_version_beats(stack: Stack, context: Context, newer: str) -> None:
    answer = heartbeat.lambda_handler(event("heartbeat", "first-beat"), context)
    assert {"next", "wait_s", "cause"} <= set(answer), "running executions read them"
    assert (answer["next"], stack.row().attempt.beats) == ("wait", 1)
    assert item(stack, newer).items() >= FUTURE.items(), "unknown attributes stay"


def test_job_of_another_version_is_settled_as_released(
    stack: Stack, context: Context, newer: str
) -> None:
    assert settle.lambda_handler(FAILED, context)["outcome"] == "RELEASED"
    assert (stack.row().state, stack.row().failures, stack.free_slots()) == (
        State.RELEASED,
        1,
        stack.settings.stages[0].slots,
    )
    assert item(stack, newer).items() >= FUTURE.items()


def with_more(value: Any) -> Any:
    """The value with a field at each depth that only a newer version knows."""
    if isinstance(value, dict):
        return {name: with_more(each) for name, each in value.items()} | {"colour": "green"}
    return [with_more(each) for each in value] if isinstance(value, list) else value


def test_unknown_fields_are_ignored_at_every_depth(life: Life) -> None:
    lineage = Lineage(
        root="main#a", parent="main#a", groups=(Group(of="main#a", run=1, n=0, size=2),)
    )
    stack = life.stack
    row = changed(stack.claim(), lineage=lineage)
    mine = {Clause.MINE: row.id}
    stack.parts.leases.apply(Change(before=stack.row(), after=row, requires=mine))
    life.start_work(row)
    stack.parts.leases.report(
        transitions.record_result(row.id, RecordedResult(1, "failed", "the job says so"))
    )
    committed = changed(stack.row(), output=life.upload(row))
    stack.parts.leases.apply(Change(before=stack.row(), after=committed, requires=mine))
    before = stack.row()
    found = item(stack, row.job_id)
    nested = {
        name: {"S": json.dumps(with_more(json.loads(found[name]["S"])))}
        for name in ("lineage", "result", "output", "execution_input")
    }
    write(stack, found | nested)
    assert changed(stack.row(), execution_input=before.execution_input) == before
    assert stack.row().input == before.input


def test_the_message_of_an_unreadable_row_waits_and_holds_up_no_other(life: Life) -> None:
    life.submit("newer")
    make_unreadable(life.stack, "newer")
    life.stack.aws.clock.advance(120)
    other = life.send("other")
    records = life.receive()
    assert len(records) == 2
    assert len(life.dispatch(records)) == 2
    assert life.row("other").state is State.RUNNING
    assert life.row("other").receive.message_id == other
    assert len(life.stack.executions()) == 2
    assert life.stack.dead_letters() == []
    (waits,) = (
        message
        for message in life.stack.sqs.queues[life.stack.jobs_url].messages.values()
        if message.id != other
    )
    assert waits.shows_at - life.stack.aws.clock.now().timestamp() == 300


def test_the_message_of_an_unreadable_row_never_wears_out(life: Life) -> None:
    life.submit("newer")
    before = make_unreadable(life.stack, "newer")
    for _ in range(12):
        life.deliver(after_s=DAY_S)
    assert len(life.stack.sqs.queues[life.stack.jobs_url].messages) == 1
    assert life.stack.dead_letters() == []
    write(life.stack, before)  # the newer version is deployed again
    life.deliver(after_s=600)
    assert life.row("newer").attempt.adoptions == 1, "the copy of its message is the job's own"


def test_a_sweep_repairs_the_others_counts_the_row_and_spares_what_belongs_to_it(
    life: Life,
) -> None:
    for job_id in ("newer", "other"):
        life.send(job_id)
    life.deliver()
    newer = life.row("newer")
    task = life.stack.start_task(newer)
    life.upload(newer)
    life.close(life.row("other"), "ABORTED")
    make_unreadable(life.stack, "newer", "result")
    report = life.sweep(after_s=3_600)
    assert (report["unreadable"], report["settled"]) == (1, 1)
    assert life.row("other").state is State.RELEASED
    assert life.pending_lists()
    assert "stopped" not in report
    assert task.arn not in life.stack.stopped_tasks
