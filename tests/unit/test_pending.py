"""What becomes of a list of pending uploads is in the table of `docs/lease.md`; here is whose list it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.domain.lease import AttemptId, job_key
from longhaul.domain.pending import attempt_of, pending_ref

KEYS = st.builds(
    job_key,
    st.from_regex(r"[a-z][a-z0-9-]{0,30}", fullmatch=True),
    st.from_regex(r"(?!/)[A-Za-z0-9._/-]{1,128}", fullmatch=True),
)


@given(KEYS, st.integers(0, 10**13), st.integers(1, 10_000))
def test_a_lists_name_says_whose_it_is(key: str, run: int, attempt: int) -> None:
    whose = AttemptId(key, run, attempt)
    assert attempt_of(pending_ref(whose)) == whose


def test_a_lists_name_can_be_read_by_people_and_needs_no_folders_of_the_jobs_choosing() -> None:
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
def test_what_is_no_list_is_nobodys(name: str) -> None:
    assert attempt_of(name) is None
