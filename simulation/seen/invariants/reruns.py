"""What becomes of a job that is run again in its place."""

from typing import TYPE_CHECKING

from longhaul.core.message import AGAIN
from simulation.seen.invariants.table import invariant

if TYPE_CHECKING:
    from simulation.seen.record import Seen
    from simulation.seen.trace import Row


@invariant(
    "S24",
    "row written",
    "a success runs again only where somebody asked for it, or what led to it has run again",
)
def runs_again_for_a_reason(seen: "Seen", written: "tuple[Row | None, Row]") -> str | None:
    before, row = written
    if before is None or before["run"] == row["run"] or before["state"]["S"] != "SUCCEEDED":
        return None
    sent = seen.sent[row["message_id"]["S"]]
    first = seen.sent[seen.asked.chain_of(sent)]
    if _run_named(seen, first.message.id) == int(before["run"]["N"]):
        return None
    led_by = seen.led_by.get((sent.key, int(before["run"]["N"])), 0)
    if sent.parent is not None and sent.led_by > led_by:
        return None
    return f"{sent.key} had succeeded, and runs again for {sent.message.id}"


@invariant("S24", "row written", "a job keeps its place in its tree when it runs again")
def keeps_its_place(seen: "Seen", written: "tuple[Row | None, Row]") -> str | None:
    del seen
    before, row = written
    if before is None or "lineage" not in before:
        return None
    return None if "lineage" in row else f"{row['key']['S']} has lost its place in its tree"


@invariant("L16", "the end", "each job that was sent to run again has run again")
def each_runs_again(seen: "Seen", _: None) -> str | None:
    for message_id, sent in seen.reruns.items():
        row = seen.rows.get(sent.key)
        excused = seen.purged_keys | seen.expired | seen.lost
        if row is None or sent.key in excused or seen.letters_of(sent):
            continue
        if int(row["run"]["N"]) <= (_run_named(seen, message_id) or 0) and not (
            seen.asked.is_cancelled(sent)
        ):
            return f"{sent.key} was to run again, and has not"
    return None


def _run_named(seen: "Seen", message_id: str) -> int | None:
    """The run that a message is to replace, if it is to."""
    value = seen.sent[message_id].message.attributes.get(AGAIN, {}).get("StringValue")
    return int(value.partition("/")[0]) if value else None
