"""Messages: why each is deleted or dead-lettered, and the handle that holds it."""

from datetime import timedelta
from itertools import pairwise
from math import inf
from typing import Any

from longhaul.core.descent import is_child_id
from simulation.seen.checks import invariant
from simulation.seen.record import Seen
from simulation.seen.sightings import DeadLetter, Sent
from simulation.worlds.stages import JOINS

_PLATFORM_FAULTS_MAY_END_A_JOB = 20
_LONGEST_INVOCATION = timedelta(seconds=90)
# Our own code fails, outputs expire after months, SQS refuses a job for good: nothing in a world
# makes these. A job that was emitted for a stage that was taken out is unsendable, too.
_NEVER_DRAWN = ("internal_error", "incomplete_join", "unsendable")


@invariant(
    "S1",
    "message removed",
    "a message is deleted only when its output is published and what follows is in its queue,"
    " when it is cancelled or dead-lettered, or while another message stands for the same work",
)
def deleted_for_a_reason(seen: Seen, sent: Sent) -> str | None:
    what = f"message {sent.message.id} of {sent.key}, work {sent.work}"
    if seen.letters_of(sent) or seen.asked.is_cancelled(sent):
        return None
    if sent.work is None:
        if _has_copy(seen, sent):  # which gets the dead letter
            return None
        claimed = sent.request.get("lineage", {})
        parent = seen.rows.get(claimed.get("parent", ""))
        if parent is not None and int(parent["run"]["N"]) > claimed.get("run", inf):
            return None  # nobody knows any more that the earlier run had not led to it
        return f"{what}, which can never run, was deleted without a dead letter"
    published = seen.success_of(sent.key, sent.work) is not None
    if published and seen.families.unsent(sent.key, once_finished=True) is None:
        return None
    if any(other.work == sent.work for other in seen.live_by_key[sent.key].values()):
        return None
    # A later run leads to it again, once all is there; and a cancel cut off what is sent late.
    if _joins_an_earlier_run(seen, sent) or seen.families.is_cut_off(sent.parent or ""):
        return None
    if sent.key in seen.purged_keys | seen.late_keys and sent.key in seen.open_rows:
        # The message that it doubles was purged, or was deleted before the claim that names it. The
        # row stands for both, and the sweeper sends a copy when it misses the message.
        return None
    why = seen.families.unsent(sent.key) if published else "nothing of it is published"
    return f"{what} was deleted, and {why}"


def _joins_an_earlier_run(seen: Seen, sent: Sent) -> bool:
    if sent.parent is None or sent.stage not in JOINS:
        return False
    opener = sent.request["lineage"]["groups"][-1]
    success = seen.success_of(opener["of"])
    return success is not None and success.run > opener["run"]


@invariant("S8", "mapping deletes", "the mapping never deletes the message of a job that runs")
def mapping_spares_running_jobs(seen: Seen, message_id: str) -> str | None:
    sent = seen.sent[message_id]
    row = seen.rows.get(sent.key)
    if row is None or row["state"]["S"] != "RUNNING" or row["message_id"]["S"] != message_id:
        return None
    if _has_copy(seen, sent):  # which takes over
        return None
    return (
        f"the mapping deletes message {message_id}, with which {sent.key} runs as attempt"
        f" {row['attempt']['N']}"
    )


@invariant(
    "S7",
    "handle used",
    "a message is extended and deleted with its newest receipt handle, or with the one that the row"
    " had when the invocation began",
)
def newest_handle(seen: Seen, call: Any, host: Any) -> str | None:
    handle = call.arguments["ReceiptHandle"]
    message = seen.world.aws.sqs.queues[call.arguments["QueueUrl"]].by_handle[handle]
    began_at = host.facts.get("began_at")
    if message.receipt_handle == handle or began_at is None:
        return None
    if any(
        record.get("receiptHandle") == handle for record in host.facts["event"].get("Records", ())
    ):
        return None
    history = seen.handles[seen.sent[message.id].key]
    for (_, had), (until, _) in zip(history, [*history[1:], (seen.now, "")], strict=True):
        if had == handle and until >= began_at:
            return None
    return f"{host.name} uses {handle}, though {message.receipt_handle} is newer and in the row"


@invariant(
    "S6",
    "extension refused",
    "nothing asks SQS to hide a message for longer than 12 h from its receive",
)
def within_twelve_hours(seen: Seen, call: Any, host: Any) -> str | None:
    if seen.world.plan.mix.skew_s or seen.world.injector.fired:
        return None  # a wrong clock may ask for too much, and the product accepts the refusal
    return f"{host.name} asked for {call.arguments['VisibilityTimeout']} s too many"


@invariant(
    "S9",
    "dead letter",
    "a job is dead-lettered for max_attempts failures of its own, for a permanent one, or when the"
    " platform has ended 20 of its tasks; never for waiting, nor for a lack of room",
)
def dead_for_its_own_faults(seen: Seen, letter: DeadLetter) -> str | None:
    if letter.reason.get("key") in seen.lost or _is_of_expired(seen, letter):
        return None  # people deleted what the job needs, or it came months too late
    senders = [each for each in seen.sent.values() if each.message.body == letter.body]
    if not letter.reason:
        return f"SQS itself gave up on {senders[0].message.id if senders else letter.body[:60]}"
    kind = letter.reason["class"]
    if kind == "unsendable" and _led_to(letter) in seen.retired:
        return None
    if kind in _NEVER_DRAWN:
        return f"{letter.reason.get('key')} is dead, {kind}: {letter.reason['reason']}"
    if not senders:
        return f"a dead letter without a message: {letter.body[:80]}"
    if kind == "invalid_request":
        key = letter.reason.get("key")
        if senders[0].work is None or _may_be_refused(seen, key) or _is_early(seen, senders, key):
            return None
        return f"a valid request was called invalid: {letter.reason['reason']}"
    if kind == "conflicting_job_id":
        return _conflict(seen, letter.reason["key"], senders)
    key, run = letter.reason["key"], letter.reason["run"]
    faults = seen.own_faults(key, run)
    job = seen.job_of(key)
    if len(faults) >= (job.max_attempts or seen.world.plan.max_attempts):
        return None
    # AWS may have kept it waiting until its end, as it stored what it had done.
    is_kept = kind == "timed_out" and job.parts and seen.world.injector.fired
    # Others have rewritten what it had appended, and let the snapshots expire.
    is_untold = "cannot be told from others" in letter.reason["reason"]
    if is_kept or is_untold or any("permanent" in each.faults_of_job for each in faults):
        return None
    # Who ends an attempt whose settle was lost cannot know that it had no task.
    placed_n = sum(
        each.token.run == run and (each.is_placed or not each.is_settled)
        for each in seen.attempts.of(key)
    )
    is_given_up = kind in ("refused", "not_placed") and _has_waited_for_a_week(seen, key, run)
    if placed_n - len(faults) >= _PLATFORM_FAULTS_MAY_END_A_JOB or is_given_up:
        return None
    return (
        f"{key} is dead ({kind}: {letter.reason['reason'][:120]}) after {len(faults)} faults of its"
        f" own and {placed_n - len(faults)} other tasks"
    )


_MOST_BETWEEN = timedelta(days=1)
"""What an attempt without a task, its back-off and an outage take at most."""


def _has_waited_for_a_week(seen: Seen, key: str, run: int) -> bool:
    """Whether no task of the run came to be in the longest time that a job asks for one.

    Between two attempts it may have waited for a slot, for weeks, and asked for nothing.
    """
    since = [each.started_at for each in seen.attempts.of(key) if each.token.run == run]
    longest = timedelta(seconds=seen.world.settings.lease.max_unplaced_s)
    asked = (min(later - at, _MOST_BETWEEN) for at, later in pairwise([*since, seen.now]))
    return sum(asked, timedelta(0)) >= longest


def _led_to(letter: DeadLetter) -> str:
    """The stage for which a job was emitted that could not be sent: a part of the job's id."""
    return str(letter.reason.get("key", "")).rpartition("/")[0].rpartition("/")[2]


def _has_copy(seen: Seen, sent: Sent) -> bool:
    """Whether a message that renews this one's chain is in the queue."""
    chain = seen.asked.chain_of(sent)
    return any(other.renews == chain for other in seen.live_by_key[sent.key].values())


def _conflict(seen: Seen, key: str, senders: list[Sent]) -> str | None:
    """What is wrong with a conflict, of which these messages are."""
    # What can never run has ended nothing but itself.
    works = {each.work for each in seen.sent_by_key[key]} - {None}
    if works <= {senders[0].work}:
        return f"{key} conflicts with nothing"
    mine = [each for each in senders if each.key == key]
    is_left_over = mine and all(_is_left_over(seen, each) for each in mine)
    return f"{key} is dead once more, of what it had died of before" if is_left_over else None


def _is_left_over(seen: Seen, sent: Sent) -> bool:
    """Whether a run for the work of this message has died since the message was sent."""
    # A refusal ends nothing but itself: what was sent before it may run, or conflict.
    letters = (
        each for each in seen.letters_of(sent) if each.reason.get("class") != "invalid_request"
    )
    runs = {each.reason.get("run") for each in letters}
    died_at = [at for (key, run), at in seen.asked.died.items() if key == sent.key and run in runs]
    return bool(died_at) and seen.asked.at(sent) + seen.asked.doubt < max(died_at)


def _is_of_expired(seen: Seen, letter: DeadLetter) -> bool:
    """Whether it is about a join whose inputs have expired, or about that join's redrive."""
    parents = (each.parent for each in seen.sent.values() if each.message.body == letter.body)
    if any(seen.families.is_incomplete(parent) for parent in parents if parent):
        return True
    return bool(seen.expired) and letter.reason.get("class") == "incomplete_join"


def _may_be_refused(seen: Seen, key: str | None) -> bool:
    """Whether settings that once allowed less excuse it: not for a job that has a run.

    An invocation that began just before the run did not see it.
    """
    if not seen.was_narrowed or key is None:
        return False
    row, since = seen.rows.get(key), seen.runs_since(key)
    has_run = since is not None and since <= seen.now - _LONGEST_INVOCATION
    return row is None or not has_run or row["state"]["S"] in ("DEAD", "CANCELLED")


def _is_early(seen: Seen, senders: list[Sent], key: str | None) -> bool:
    """Whether it is a request by hand under the id of a follow-on that has not come yet.

    An invocation that began just before it came did not see it.
    """
    stage, _, job_id = (key or "").partition("#")
    if not is_child_id(job_id, stage) or any("lineage" in each.request for each in senders):
        return False
    row, since = seen.rows.get(str(key), {}), seen.runs_since(str(key))
    return "lineage" not in row or since is None or since > seen.now - _LONGEST_INVOCATION


@invariant("S7", "row written", "of two receives of a message the row keeps the newer one")
def newer_receive_stays(_seen: Seen, before: Any, row: dict[str, Any]) -> str | None:
    if before is None or before["message_id"] != row["message_id"]:
        return None
    old, new = (int(each.get("receive_count", {"N": "0"})["N"]) for each in (before, row))
    return f"{row['key']['S']} knew receive {old} and now names {new}" if new < old else None


@invariant("S7", "row written", "a row that names another receive has the handle of that receive")
def handle_of_its_receive(_seen: Seen, before: Any, row: dict[str, Any]) -> str | None:
    if before is None or "receipt_handle" not in row or before["message_id"] != row["message_id"]:
        return None
    is_received = before.get("receive_count") != row.get("receive_count")
    if is_received and before.get("receipt_handle") == row["receipt_handle"]:
        receive = row["receive_count"]["N"]
        return f"{row['key']['S']} names receive {receive} and keeps the handle of an earlier one"
    return None
