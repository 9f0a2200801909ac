"""The row of a job whose attempt has ended."""

from datetime import timedelta

from longhaul.core.lease import Owed, State
from longhaul.core.settlement import cancel_waiting, noted_gone, struck
from tests.builders import NOW, OUTPUT, running


def test_job_cancelled_between_attempts_has_ended_at_that_time_and_owes_its_delete() -> None:
    later = NOW + timedelta(minutes=5)
    after = cancel_waiting(running(state=State.RELEASED, failures=1), later)
    assert (after.state, after.last_class, after.settled_at, after.owed) == (
        State.CANCELLED,
        "cancelled",
        later,
        (Owed.DELETE,),
    )


def test_what_is_done_is_struck_off_and_the_rest_stays_owed() -> None:
    later = NOW + timedelta(minutes=5)
    ended = running(state=State.SUCCEEDED, output=OUTPUT, owed=(Owed.PUBLISH, Owed.DELETE))
    published = struck(ended, Owed.PUBLISH, later)
    assert (published.owed, published.attempt.published_at) == ((Owed.DELETE,), later)
    deleted = struck(published, Owed.DELETE, later + timedelta(minutes=1))
    assert (deleted.owed, deleted.attempt.published_at) == ((), later)


def test_uploads_that_are_gone_are_noted_with_the_time_of_the_look() -> None:
    assert noted_gone(running(), NOW).attempt.gone_at == NOW
