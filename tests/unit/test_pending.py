"""The names of lists of pending uploads.

When a list is kept, struck off or aborted is in the table of `docs/internals/lease.md`.
"""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.lease import AttemptId, State, job_key
from longhaul.core.places import PendingTable
from longhaul.core.settings import LeaseSettings
from longhaul.outputs.manifest import PendingOutput
from longhaul.outputs.pending import attempt_of, decide_pending, is_own, pending_ref
from tests.builders import NOW, changed, running

KEYS = st.builds(
    job_key,
    st.from_regex(r"[a-z][a-z0-9-]{0,30}", fullmatch=True),
    st.from_regex(r"(?!/)[A-Za-z0-9._/-]{1,128}", fullmatch=True),
)


@given(KEYS, st.integers(0, 10**13), st.integers(1, 10_000))
def test_attempt_is_read_back_from_the_name_of_its_list(key: str, run: int, attempt: int) -> None:
    owner = AttemptId(key, run, attempt)
    assert attempt_of(pending_ref(owner)) == owner


def test_name_of_a_list_is_readable_and_slashes_of_the_job_id_make_no_folders() -> None:
    ref = pending_ref(AttemptId("main#flights/2013-01", 1_767_323_045_000, 2))
    assert ref == "longhaul/pending/main!flights!2013-01/1767323045000-2.json"


@pytest.mark.parametrize(
    "name",
    [
        "longhaul/requests/main!a/1-1.json",
        "longhaul/pending/",
        "longhaul/pending/0123456789abcdef0123/1-1.json",
        "longhaul/pending/main!a/b/1-1.json",
        "longhaul/pending/main!a/1-x.json",
    ],
)
def test_name_of_another_object_belongs_to_no_attempt(name: str) -> None:
    assert attempt_of(name) is None


def test_a_list_is_its_attempts_own_only_with_tables_where_their_names_say() -> None:
    attempt = AttemptId("main#a", 1, 1)

    def listing(location: str) -> PendingOutput:
        table = PendingTable(
            database="lake", name="a", location=location, mode="append", columns=""
        )
        place = "s3://data/tables/lake/"
        return PendingOutput(version=2, token=attempt.token, prefix=place, tables=(table,))

    own = listing("s3://data/tables/lake/a")
    assert is_own(own, attempt, "data")
    assert not is_own(listing("s3://data/longhaul/requests"), attempt, "data")


@pytest.mark.parametrize(
    ("state", "number", "settled_s", "decision"),
    [
        (State.RUNNING, 3, None, "keep"),  # of an attempt that the row does not know yet
        (State.DEAD, 3, 10_000, "keep"),
        (State.DEAD, 2, 149, "keep"),  # its task may still be stopping
        (State.DEAD, 2, 150, "abort"),
        (State.DEAD, 2, None, "abort"),
        (State.DEAD, 1, None, "abort"),
        (State.RUNNING, 1, None, "abort"),
    ],
)
def test_uploads_are_aborted_when_their_task_must_be_gone(
    state: State, number: int, settled_s: int | None, decision: str
) -> None:
    row = changed(running(), attempt=2, state=state)
    if settled_s is not None:
        row = changed(row, settled_at=NOW - timedelta(seconds=settled_s))
    owner = replace(row.id, attempt=number)

    assert decide_pending(owner, row, LeaseSettings(), NOW) == decision
