"""Runs of a job: one after the other, again by hand, from the dead-letter queue; their names."""

import json
from collections.abc import Iterator
from datetime import timedelta

from longhaul.core.message import AGAIN
from simulation.aws.platform.hosts import current_host
from simulation.seen.asked import DOUBT
from simulation.seen.checks import invariant
from simulation.seen.record import Seen
from simulation.seen.sightings import DeadLetter, Row, Sent, request_in, time_in

_MISSED_AFTER = timedelta(hours=5, minutes=50)  # six hours, by clocks that may be wrong
# Between a settle's look at the time and its write, also when calls are slow.
_A_SETTLE = timedelta(seconds=90)


@invariant("S14", "row written", "an attempt starts only for what no cancel covers")
def cancelled_work_does_not_start(seen: Seen, before: Row | None, row: Row) -> str | None:
    if not _is_claim(before, row):
        return None
    sent = seen.sent[row["message_id"]["S"]]
    asked_at, before_at = seen.asked.at(sent), seen.asked.cancelled_before.get(sent.key)
    is_covered = before_at is not None and asked_at < before_at - seen.asked.doubt
    if before is not None and "cancelled_at" in before:
        is_covered = is_covered or asked_at < time_in(before, "cancelled_at")
    return (
        f"{sent.key} starts for {sent.message.id}, and was cancelled later" if is_covered else None
    )


@invariant("S14", "row written", "nothing of a cancelled tree starts that was sent before it")
def cancelled_trees_do_not_go_on(seen: Seen, before: Row | None, row: Row) -> str | None:
    if not _is_claim(before, row) or "lineage" not in row:
        return None
    lineage = json.loads(row["lineage"]["S"])
    root = seen.rows.get(lineage["root"], {})
    cancelled_before = seen.asked.trees_cancelled_before.get(lineage["root"])
    if "tree_cancelled_at" not in root or cancelled_before is None:
        return None
    sent = seen.sent[row["message_id"]["S"]]
    asked_at = seen.asked.at(sent)
    if lineage.get("inputs_ref"):
        # A join follows all that it collects, the last of them too.
        rows = _descending(seen, lineage["root"])
        # One that was cancelled before its message came was not asked for.
        asked_at = max(time_in(each, "first_sent_at") for each in rows if "first_sent_at" in each)
    elif sent.is_follow_on and (parent := seen.rows.get(lineage["parent"])):
        # It follows a run that was asked for then.
        asked_at = min(asked_at, time_in(parent, "first_sent_at"))
    if asked_at >= cancelled_before - seen.asked.doubt:
        return None
    return f"{sent.key} starts, asked for at {asked_at}, and its tree was cancelled later"


def _descending(seen: Seen, root: str) -> Iterator[Row]:
    for row in seen.rows.values():
        if "lineage" in row and json.loads(row["lineage"]["S"])["root"] == root:
            yield row


@invariant("S14", "row written", "a cancel is never forgotten")
def cancels_are_kept(_seen: Seen, before: Row | None, row: Row) -> str | None:
    if before is None or "cancelled_at" not in before:
        return None
    if "cancelled_at" in row and time_in(before, "cancelled_at") <= time_in(row, "cancelled_at"):
        return None
    return f"{row['key']['S']} no longer knows that it was cancelled"


@invariant("S14", "row written", "a dead job runs again only for what was sent after its end")
def dead_work_does_not_start(seen: Seen, before: Row | None, row: Row) -> str | None:
    if before is None or before["state"]["S"] != "DEAD" or not _is_claim(before, row):
        return None
    if _is_refused(before):
        return None  # it ended nothing but itself
    sent = seen.sent[row["message_id"]["S"]]
    last = seen.sent.get(before["message_id"]["S"])
    if last is not None and sent.leads_on_from(last):
        return None  # what led to it had run again meanwhile
    early = time_in(before, "settled_at") - seen.asked.at(sent)
    if early <= DOUBT:
        return None
    return f"{sent.key} runs again for {sent.message.id}, sent {early} before its end"


@invariant("S14", "row written", "the end of a dead job is in AWS's time")
def ends_are_in_awstime_in(seen: Seen, before: Row | None, row: Row) -> str | None:
    if row["state"]["S"] != "DEAD" or (before is not None and before["state"]["S"] == "DEAD"):
        return None
    if _is_refused(row):
        return None  # no message is compared with its end
    ended_at = time_in(row, "settled_at")
    if -DOUBT <= seen.now - ended_at <= _A_SETTLE:
        return None
    return f"{row['key']['S']} died at {seen.now}, and its row says {ended_at}"


@invariant("S14", "row written", "a refusal ends nothing but itself")
def refusals_end_no_job(_seen: Seen, before: Row | None, row: Row) -> str | None:
    if before is None or _is_refused(before) or not _is_refused(row):
        return None
    return f"{row['key']['S']} was {before['state']['S']}, and is refused"


@invariant("S14", "row written", "of a message and its copies, only a later one replaces another")
def chains_go_forward(seen: Seen, before: Row | None, row: Row) -> str | None:
    if before is None or not before.get("message_id", {}).get("S"):
        return None
    old, new = (seen.sent[each["message_id"]["S"]] for each in (before, row))
    is_one_chain = seen.asked.chain_of(old) == seen.asked.chain_of(new)
    return (
        f"{old.message.id} is replaced by the earlier {new.message.id}"
        if (is_one_chain and new.at < old.at)
        else None
    )


@invariant("S15", "message added", "the sweeper misses a message at most once in six hours")
def copies_are_rare(seen: Seen, sent: Sent) -> str | None:
    host = current_host()
    if sent.renews is None or host is None or not host.name.startswith("sweeper"):
        return None
    before, seen.asked.copied_at[sent.key] = seen.asked.copied_at.get(sent.key), seen.now
    if before is None or seen.now - before >= _MISSED_AFTER:
        return None
    if seen.world.injector.fired_since(before - _MISSED_AFTER):
        return None  # a sweeper or a dispatcher that died could not note what it had seen
    return f"a copy of {sent.key} was sent {seen.now - before} after the one before"


def _is_claim(before: Row | None, row: Row) -> bool:
    return row["state"]["S"] == "RUNNING" and (
        before is None or before["attempt"] != row["attempt"]
    )


def _is_refused(row: Row) -> bool:
    return bool(row["state"]["S"] == "DEAD" and not row["execution_input"]["S"])


@invariant(
    "S24",
    "row written",
    "a success runs again only where somebody asked for it, or what led to it has run again",
)
def runs_again_for_a_reason(seen: Seen, before: Row | None, row: Row) -> str | None:
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
def keeps_its_place(_seen: Seen, before: Row | None, row: Row) -> str | None:
    if before is None or "lineage" not in before:
        return None
    return None if "lineage" in row else f"{row['key']['S']} has lost its place in its tree"


@invariant("L16", "the end", "each job that was sent to run again has run again")
def each_runs_again(seen: Seen, _: None) -> str | None:
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


def _run_named(seen: Seen, message_id: str) -> int | None:
    """The run that a message is to replace, if it is to."""
    value = seen.sent[message_id].message.attributes.get(AGAIN, {}).get("StringValue")
    return int(value.partition("/")[0]) if value else None


@invariant("L10", "dead letter", "every dead letter can be redriven under its own job id")
def letter_keeps_its_job_id(_seen: Seen, letter: DeadLetter) -> str | None:
    """The id is in the body, or in an attribute; without both a redrive is another job."""
    key = letter.reason.get("key")
    if key is None:
        return None  # no job: its body can never run
    job_id = request_in(letter.body).get("job_id") or letter.job_id
    if job_id == key.partition("#")[2]:
        return None
    return f"the dead letter of {key} would be redriven as {job_id or 'a new job'}"


@invariant("S20", "the end", "a later run of a job, and all that follows from it, is called alike")
def called_alike(seen: Seen, _: None) -> str | None:
    """Through copies, retries, redrives and corrections. A row that has expired says nothing."""
    for key, row in seen.rows.items():
        lineage = json.loads(row["lineage"]["S"]) if "lineage" in row else {"root": key}
        root = seen.rows.get(lineage["root"])
        if root is None or key in seen.forged_keys or _is_mark(row) or _is_mark(root):
            continue
        for name in ("label", "tags"):
            if name in root and row.get(name) != root[name]:
                return f"{key} has {name} {row.get(name)}, and its root {root[name]}"
    return None


def _is_mark(row: Row) -> bool:
    return bool(row["attempt"]["N"] == "0")
