"""What is left to do when a job has ended, and who does it when two functions are at it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from longhaul.core.errors import LeaseChangedError, VoidCommitError
from longhaul.core.finish import Finisher
from longhaul.core.lease import CommittedOutput, Lease, Owed, State
from longhaul.core.message import Message
from longhaul.core.metrics import dimension
from longhaul.core.results import Results
from longhaul.core.settle import Settler
from longhaul.core.verdict import Evidence
from longhaul.pipelines.following import Following
from tests.builders import NOW, changed, running, stage, there
from tests.unit.use_cases import alone

OUTPUT = CommittedOutput(1, 1, 1, prefix="s3://b/out/")
ENDED = changed(
    running(
        state=State.SUCCEEDED, settled_at=NOW, settled_attempt=1, owed=(Owed.PUBLISH, Owed.DELETE)
    ),
    output=OUTPUT,
)
PUBLISHED = changed(ENDED, published_at=NOW)
HANDLE = ENDED.receive.receipt_handle


def striking() -> Mock:
    """Leases that note what is done."""
    leases = Mock()
    leases.load_many.return_value = {}
    leases.apply.side_effect = lambda change: replace(change.before, owed=change.after.owed)
    return leases


def finisher(**parts: Any) -> Finisher:
    return alone(Finisher, **{"leases": striking(), **parts})


def voided(**parts: Any) -> Any:
    publication = Mock()
    publication.publish.side_effect = VoidCommitError("gone")
    return finisher(**{"publication": publication, **parts})


def test_a_job_whose_commit_is_void_is_visible_at_once_and_then_cleaned_up_after() -> None:
    reopened = running(state=State.RELEASED, settled_attempt=1)
    calls, queue = Mock(), Mock()
    found = voided(queue=queue)
    calls.attach_mock(queue, "queue")
    calls.attach_mock(found.publication, "publication")
    found.publication.reopen.return_value = reopened

    assert found.finish(ENDED) is reopened

    assert [name for name, *_ in calls.mock_calls] == [
        "publication.publish",
        "publication.reopen",
        "queue.set_visibility",
        "publication.discard",
    ]
    queue.set_visibility.assert_called_once_with(stage().queue_url, HANDLE, 0)


def test_what_another_finisher_has_done_meanwhile_is_not_done_again() -> None:
    leases, queue = Mock(), Mock()
    done = replace(PUBLISHED, owed=())
    leases.apply.return_value = done  # the answer was lost, and the other went on to the end

    assert finisher(leases=leases, queue=queue).finish(ENDED) is done

    assert leases.apply.call_count == 1
    queue.delete.assert_not_called()


@pytest.mark.parametrize(
    ("before", "current", "after"),
    [
        (ENDED, None, ENDED),
        # Its runner published meanwhile, and no other function need come.
        (ENDED, replace(PUBLISHED, owed=(Owed.DELETE,)), replace(PUBLISHED, owed=())),
        # Another function is at it, or it had been published before.
        (ENDED, replace(ENDED, owed=(Owed.DELETE,)), replace(ENDED, owed=(Owed.DELETE,))),
        (PUBLISHED, replace(PUBLISHED, owed=(Owed.DELETE,)), None),
        # A new run has begun, or has been published, too.
        (ENDED, running(run=ENDED.run + 1), None),
        (ENDED, replace(PUBLISHED, run=ENDED.run + 1, owed=(Owed.DELETE,)), None),
    ],
    ids=["gone", "published", "not published", "as before", "a new run", "a new run's output"],
)
def test_the_row_that_won_goes_on(
    before: Lease, current: Lease | None, after: Lease | None
) -> None:
    leases = striking()
    strike = leases.apply.side_effect

    def lost(*_: Any) -> None:
        leases.apply.side_effect = strike
        raise LeaseChangedError(current)

    leases.apply.side_effect = lost
    assert finisher(leases=leases).finish(before) == (after or current)


def test_a_reopening_that_lost_leaves_the_row_that_won() -> None:
    found = voided()
    current = replace(PUBLISHED, owed=(Owed.DELETE,))
    found.publication.reopen.side_effect = LeaseChangedError(current)
    assert found.finish(ENDED) == replace(current, owed=())


@pytest.mark.parametrize("owed", [Owed.PUBLISH, Owed.FOLLOW_ONS])
def test_a_job_whose_output_or_follow_ons_can_never_be_is_dead(owed: Owed) -> None:
    giving_up, publication = Mock(), Mock()
    publication.publish.side_effect = ValueError
    dead = replace(ENDED, state=State.DEAD, owed=())
    giving_up.is_due.return_value = True
    giving_up.end.return_value = dead
    row = replace(ENDED, owed=(owed, Owed.DELETE))
    follow_ons = Mock()
    follow_ons.send.side_effect = ValueError
    parts = {"giving_up": giving_up, "publication": publication, "follow_ons": follow_ons}
    assert finisher(**parts).finish(row) is dead


@pytest.mark.parametrize("other", [None, running(key="main#next")])
def test_a_follow_on_that_is_never_taken_is_dead_and_a_row_of_its_id_stays(
    other: Lease | None,
) -> None:
    queue, giving_up, leases = Mock(), Mock(), striking()
    queue.send_many.side_effect = lambda _, messages: [(each, "too long") for each in messages]
    strike, written = leases.apply.side_effect, []

    def apply(change: Any) -> Lease:
        if change.before is not None:
            return strike(change)
        written.append(change.after)
        if other is not None:
            raise LeaseChangedError(other)
        return change.after

    leases.apply.side_effect = apply
    requests = Mock()
    requests.get.return_value = Message("{}", {}, "a-group")
    row = replace(PUBLISHED, owed=(Owed.FOLLOW_ONS,), leads_to=("main",))
    following = alone(Following, queue=queue, requests=requests, giving_up=giving_up, leases=leases)
    for dead in following.send(row):
        finisher(giving_up=giving_up, leases=leases, queue=queue).finish(dead)
    ((dead, *more),) = (written,)
    assert dead.key.startswith("main#january/main/")
    assert (dead.state, dead.last_class) == (State.DEAD, "unsendable")
    assert (more, giving_up.send.call_count) == ([], 1)
    assert giving_up.send.call_args.args[0] == stage().dead_letter_queue_url


@pytest.mark.parametrize(
    ("task_arn", "log"),
    [
        ("arn:aws:ecs:us-east-1:123456789012:task/Longhaul/abc", "/longhaul/jobs:job/job/abc"),
        ("arn:aws:emr-serverless:x/jobruns/named/main#a 5 1", "/longhaul/jobs"),
        (None, None),
    ],
)
def test_a_dead_letter_says_where_the_log_is(task_arn: str | None, log: str | None) -> None:
    queue, requests, executions = Mock(), Mock(), Mock()
    requests.get.return_value = Message("{}", {})
    executions.arn.return_value = "arn:execution"
    dead = changed(
        replace(ENDED, state=State.DEAD, last_class="failed", owed=(Owed.DEAD_LETTER,)),
        task_arn=task_arn,
    )
    finisher(queue=queue, requests=requests, executions=executions).finish(dead)
    url, letter = queue.send.call_args.args
    assert url == stage().dead_letter_queue_url
    explained = str(letter.attributes["longhaul"])
    assert ("/longhaul/jobs" in explained) is (log is not None)
    assert log is None or f'"{log}"' in explained


def test_what_a_success_measured_is_told_once_after_all_else() -> None:
    measured = replace(OUTPUT, results=Results(metrics={"bad_rows": 12}))
    ended, metrics, queue = changed(PUBLISHED, output=measured), Mock(), Mock()
    queue.delete.side_effect = [ConnectionError, None]
    found = finisher(metrics=metrics, queue=queue, giving_up=Mock(is_due=Mock(return_value=False)))

    with pytest.raises(ConnectionError):
        found.finish(ended)
    metrics.put_of_job.assert_not_called()
    done = found.finish(ended)
    found.finish(done)

    job = there(ended.input.job)
    metrics.put_of_job.assert_called_once_with({"bad_rows": 12}, stage="main", job=job)


def test_a_dimension_is_ascii() -> None:
    assert dimension("s3://b/jobs/\u00e4 b.py") == "s3://b/jobs/??b.py"
    assert len(dimension("a" * 1_000)) == 250


# What a settle does that comes again, or whose row belongs to another run.


ATTEMPT = running().id


def settler(row: Lease | None, **parts: Any) -> Settler:
    leases = Mock()
    leases.load.return_value = row
    return alone(Settler, **{"leases": leases, **parts})


@pytest.mark.parametrize(("due_s", "hidden_s"), [(-7, 0), (7, 7)])
def test_a_release_that_is_repeated_leaves_what_is_left_of_the_back_off(
    due_s: int, hidden_s: int
) -> None:
    finisher = Mock()
    row = running(state=State.RELEASED, settled_attempt=1, retry_at=NOW + timedelta(seconds=due_s))
    assert settler(row, finisher=finisher).settle(ATTEMPT, Evidence("any")) == "RELEASED"
    finisher.release.assert_called_once_with(row, hidden_s)


@pytest.mark.parametrize(
    ("row", "called"),
    [
        (None, "SUPERSEDED"),
        (running(run=ATTEMPT.run + 1), "SUPERSEDED"),
        (running(state=State.SUCCEEDED, settled_attempt=1, retry_at=NOW), "SUPERSEDED"),
        (running(state=State.RELEASED, settled_attempt=1), "RELEASED"),
    ],
    ids=["no row", "another run", "a new run began", "released for good"],
)
def test_an_attempt_that_was_settled_before_is_called_as_its_row_is_then(
    row: Lease | None, called: str
) -> None:
    """Finishing it may have started a new run."""
    finisher = Mock()
    is_released = row is not None and row.state is State.RELEASED
    finisher.finish.return_value = row if is_released else running()
    assert settler(row, finisher=finisher).settle(ATTEMPT, Evidence("any")) == called


@pytest.mark.parametrize("row", [None, running(run=ATTEMPT.run + 1)], ids=["no row", "another run"])
def test_an_attempt_that_no_row_holds_is_not_given_up(row: Lease | None) -> None:
    leases, giving_up = Mock(), Mock()
    leases.load.side_effect = [TimeoutError, row]
    with pytest.raises(TimeoutError):
        settler(None, leases=leases, giving_up=giving_up).settle(ATTEMPT, Evidence("any"))
    assert giving_up.is_due.called
    assert not giving_up.end.called
