"""A stage's `notify`: every end is told after it is done, and a deaf target keeps no message."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from longhaul.core.lease import State
from longhaul.core.metrics import NoticeMetric
from longhaul.notices.announcer import REFUSED_FOR, UNREACHED_FOR
from longhaul.notices.targets import AwsNotices
from longhaul.operations.wait import Awaited, standing
from simulation.aws.service import ACCOUNT, REGION, Answer, Call, Proceed, unavailable
from tests.emf import metrics_in
from tests.faults import denied, failing
from tests.handlers.life import JOB, Life
from tests.handlers.stack import Stack, deployed
from tests.handlers.test_trees import rerun

TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:ended"
BUS = f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/ours"


@pytest.fixture
def life(output: Path) -> Iterator[Life]:
    with deployed(check=True, notify=TOPIC, max_attempts=2) as stack:
        stack.aws.sns.create_topic(Name="ended")
        yield Life(stack, output)


def told(life: Life) -> list[dict[str, Any]]:
    return [json.loads(text) for text in life.stack.aws.sns.topics[TOPIC]]


def succeed(life: Life) -> str:
    """Run the job to its end; return the id of its message."""
    sent = life.submit()
    life.succeed(life.row())
    return sent


def lost(capsys: pytest.CaptureFixture[str]) -> float:
    found = metrics_in(capsys.readouterr().out)
    return sum(each.value for each in found if each.name == NoticeMetric.LOST)


def test_a_success_is_told_with_its_output(life: Life) -> None:
    message_id = succeed(life)
    row = life.row()
    assert row.settled_at
    assert told(life) == [
        {
            "version": 1,
            "id": f"{row.id.key_hash}-{row.run}",
            "stage": "main",
            "job_id": JOB,
            "label": None,
            "tags": {},
            "run": row.run,
            "message_id": message_id,
            "outcome": "SUCCEEDED",
            "class": "succeeded",
            "attempts": 1,
            "output": "s3://longhaul-data/out/january/",
            "outputs": {},
            "reason": None,
            "ended_at": row.settled_at.isoformat(timespec="milliseconds"),
            "result": None,
            "rows": {},
            "metrics": {},
        }
    ]
    assert life.stack.messages() == (0, 0)


def test_nothing_waits_for_a_notice_that_cannot_be_sent(life: Life) -> None:
    """A retry, a wait, a backfill and a tree waited for it, for a day."""
    with failing(life.stack.aws.gate, unavailable, "Publish"):
        life.running()
        life.settle(life.row(), "exit-65-permanent")
        dead = life.row()
        assert standing(Awaited(dead.key, None, None), dead).done
        life.stack.aws.clock.advance(1)
        rerun(life.stack, dead)
        life.deliver()
        life.succeed(life.row())
        assert life.row().is_finished
        assert life.stack.messages() == (0, 0)
    life.sweep(after_s=300)
    assert sorted(each["outcome"] for each in told(life)) == ["DEAD", "SUCCEEDED"]


@pytest.mark.parametrize(("error", "most"), [(denied, REFUSED_FOR), (unavailable, UNREACHED_FOR)])
def test_a_notice_is_tried_for_so_long_and_then_lost_and_counted(
    life: Life, capsys: pytest.CaptureFixture[str], error: Any, most: Any
) -> None:
    with failing(life.stack.aws.gate, error, "Publish"):
        succeed(life)
        life.sweep(after_s=most.total_seconds() - 60)
        assert lost(capsys) == 0
        life.sweep(after_s=61)
        life.sweep()
    life.sweep()
    assert (told(life), lost(capsys)) == ([], 1)


@contextmanager
def hanging(life: Life, for_s: float) -> Iterator[list[Call]]:
    """The target does not answer: each call takes so long, and fails."""
    calls: list[Call] = []

    def late(call: Call) -> BaseException:
        calls.append(call)
        life.stack.aws.clock.advance(for_s)
        return unavailable(call)

    with failing(life.stack.aws.gate, late, "Publish"):
        yield calls


def test_a_job_starts_beside_notices_that_hang(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its message comes with one that is refused, and with one that a cancel ended."""
    life.submit("february")
    life.settle(life.row("february"), "exit-1")
    life.stack.parts.leases.request_cancel("main#february", "main")
    life.stack.aws.clock.advance(1_000)
    life.stack.sqs.send_message(QueueUrl=life.stack.jobs_url, MessageBody="no json")
    life.send()
    states: list[State | None] = []
    started = Event()

    # Not in a call of the fakes, which are made one at a time: the start would wait for it.
    def hang(_notices: AwsNotices, _target: str, _notice: object) -> None:
        started.wait(20)
        row = life.stack.parts.leases.load(f"main#{JOB}")
        states.append(row.state if row else None)
        raise ReadTimeoutError(endpoint_url="")

    def around(call: Call, proceed: Proceed) -> Answer:
        answer = proceed()
        if call.operation == "StartExecution":
            started.set()
        return answer

    monkeypatch.setattr(AwsNotices, "send", hang)
    life.stack.aws.gate.around = around
    life.dispatch(life.receive())
    assert states == [State.RUNNING] * 2


def test_a_target_that_did_not_answer_is_spared_for_a_minute(life: Life) -> None:
    """Otherwise some hundred jobs that owe a notice would keep all dispatchers waiting for it."""
    for n in range(4):
        life.send(f"j{n}")
    life.deliver()
    for n in range(4):
        life.complete(life.row(f"j{n}"))
    with hanging(life, for_s=14) as calls:
        for n in range(4):
            assert life.settle(life.row(f"j{n}")) == "SUCCEEDED"
        assert len(calls) == 1
        life.sweep(after_s=46)
        assert len(calls) == 2
    life.sweep(after_s=60)
    assert sorted(each["job_id"] for each in told(life)) == ["j0", "j1", "j2", "j3"]


def run_events(stack: Stack) -> list[dict[str, Any]]:
    return [
        json.loads(entry["Detail"])
        for entry in stack.aws.events.events[BUS]
        if entry["DetailType"] == "OpenLineage Run Event"
    ]


def test_a_run_is_told_as_openlineage_says_it_too(output: Path) -> None:
    with deployed(check=True, notify=BUS, openlineage=True, max_attempts=1) as stack:
        life = Life(stack, output)
        succeed(life)
        (started, done) = run_events(stack)
        assert (started["eventType"], done["eventType"]) == ("START", "COMPLETE")
        (read,), (wrote,) = done["inputs"], done["outputs"]
        assert read["facets"]["version"]["datasetVersion"] == "ab12"
        assert wrote["facets"]["version"]["datasetVersion"] == life.row().id.token
        assert len(stack.aws.events.events[BUS]) == 3

        life.submit("dies")
        assert life.settle(life.row("dies"), "exit-1") == "DEAD"
        died = run_events(stack)[-1]
        # Nothing was read in any version: these are the paths of the request.
        assert (died["eventType"], died["outputs"]) == ("FAIL", [])
        assert [each.keys() for each in died["inputs"]] == [{"namespace", "name"}]


def test_a_target_that_hangs_until_the_batch_is_over_doubles_no_dead_letter(life: Life) -> None:
    for _ in range(2):
        for n in range(3):
            life.send(f"j{n}", params={"limit": len(life.stack.executions())})
        if not life.stack.executions():
            life.deliver()
    life.send()
    with hanging(life, for_s=300) as calls:
        life.dispatch(life.receive())
        assert life.row().state is State.RUNNING
        life.deliver(after_s=300)
    assert (len(life.stack.dead_letters()), len(calls)) == (3, 1)
    life.sweep()
    assert [each["outcome"] for each in told(life)] == ["REFUSED"] * 3
