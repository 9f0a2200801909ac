"""What becomes of a tree that is run again."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from simulation.seen.invariants.table import invariant
from simulation.seen.invariants.trees import keys_below
from simulation.seen.reruns import is_sent_by_rerun

if TYPE_CHECKING:
    from simulation.seen.record import Seen
    from simulation.seen.sightings import DeadLetter, Sent
    from simulation.seen.trace import Row

_ENDED = ("SUCCEEDED", "DEAD", "CANCELLED")
# Between a person's look and the send: calls are slow, and an index lags.
_A_LOOK = timedelta(seconds=150)


@invariant("S24", "message added", "a success is run again as another job, which names it")
def names_what_it_runs_again(seen: "Seen", sent: "Sent") -> str | None:
    if not is_sent_by_rerun():
        return None
    row = seen.rows.get(sent.key)
    if sent.key not in seen.reruns.of:
        # Under its own id: it died, or was cancelled.
        is_its_own = row is not None and seen.success_of(sent.key) is None
        return None if is_its_own else f"{sent.key} was sent again, as no job that is known"
    of = seen.reruns.of[sent.key]
    if seen.success_of(of) is None and of not in seen.expired:
        return f"{sent.key} runs {of} again, which has not succeeded"
    if "lineage" in sent.request:
        return f"{sent.key} has a place in the tree of {of}"
    return None


@invariant("S24", "message added", "no tree is run again while a job of it goes on")
def nothing_goes_on_beside_it(seen: "Seen", sent: "Sent") -> str | None:
    if not is_sent_by_rerun() or sent.key not in seen.reruns.of:
        return None
    for top in seen.reruns.beside(sent.key):
        for key in keys_below(seen, top):
            if key not in seen.purged_keys | seen.expired and _goes_on(seen, key):
                return f"{sent.key} is sent, and {key} goes on"
    return None


@invariant("S24", "row written", "the row of a rerun says for good what it runs again")
def row_names_it(seen: "Seen", written: "tuple[Row | None, Row]") -> str | None:
    before, row = written
    key = row["key"]["S"]
    sent = seen.sent.get(row.get("message_id", {}).get("S", ""))
    known = {(before or {}).get("rerun_of", {}).get("S"), sent and sent.request.get("rerun_of")}
    said = row.get("rerun_of", {}).get("S")
    # A correction that came first knows nothing of it.
    if key not in seen.reruns.of or known == {None} or said in known - {None}:
        return None
    return f"{key} runs {seen.reruns.of[key]} again, and its row says {said}"


@invariant("S24", "dead letter", "two people who run a tree again at once do not get in their way")
def no_rerun_conflicts(seen: "Seen", letter: "DeadLetter") -> str | None:
    key = letter.reason.get("key")
    if letter.reason.get("class") != "conflicting_job_id" or key not in seen.reruns.of:
        return None
    by_hand = [each for each in seen.sent_by_key[key] if "rerun_of" not in each.request]
    return None if by_hand else f"{key} conflicts with another rerun of {seen.reruns.of[key]}"


def _goes_on(seen: "Seen", key: str) -> bool:
    """Whether it went on when the person looked, and still does."""
    sent = seen.sent_by_key[key]
    if not sent or sent[-1].at > seen.now - _A_LOOK:
        return False
    row: Any = seen.rows.get(key)
    if row is None:
        return bool(seen.live_by_key[key])
    since = seen.runs_since(key)
    has_begun = since is not None and since <= seen.now - _A_LOOK
    return has_begun and row["state"]["S"] not in _ENDED
