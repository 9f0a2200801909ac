"""Trees, and what is told of ends."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from longhaul.core.lease import AttemptId, key_hash
from simulation.seen.checks import invariant
from simulation.seen.record import Seen
from simulation.worlds.results import kept

_LONG_OUTAGE_S = 600.0


@invariant("S22", "tree told", "no end of a tree is told before all of it has ended once")
def ended_before_told(seen: Seen, event: dict[str, Any]) -> str | None:
    backfill = seen.backfills.get(_root(event)) if event["run"] is None else None
    if backfill is not None:
        # More may have been sent since the look.
        ended = sum(_has_ended(seen, key) for key in _sent_keys(seen, _root(event), backfill))
        jobs = sum(sum(each.values()) for each in event["jobs"].values())
        waiting = sum(each.get("WAITS", 0) for each in event["jobs"].values())
        if ended < jobs - waiting:
            return f"{event} was told, and {ended} have ended"
        again = _sent_again(seen, event, backfill)
        return f"{event} was told, and {again} is still to run again" if again else None
    for key in keys_below(seen, _root(event)):
        if not _has_ended(seen, key):
            return f"{event} was told, and {key} has not ended"
    return None


def _sent_again(seen: Seen, event: dict[str, Any], item: Mapping[str, Any]) -> str | None:
    """Key of a job that a command had noted to have sent again, and whose message is to run.

    Of a rerun by hand nothing is noted: what it comes after has ended, and is told.
    """
    if int(item["ends"]["N"]) != event["sequence"]:
        return None  # more was noted since the look
    for text in item.get("again_values", {"SS": ()})["SS"]:
        key = f"{_root(event)}/{text.partition('@')[0]}"
        row = seen.rows.get(key)
        if row is None or row["state"]["S"] not in ("DEAD", "CANCELLED"):
            continue
        died_at = seen.asked.died.get((key, int(row["run"]["N"])), seen.began_at)
        for sent in seen.live_by_key[key].values():
            is_by_hand = sent.message.id in seen.reruns
            is_later = sent.at > died_at + seen.asked.doubt
            if is_later and not (is_by_hand or seen.asked.is_cancelled(sent)):
                return key
    return None


def _has_ended(seen: Seen, key: str) -> bool:
    # One that was cancelled before its message came has ended once that comes.
    is_over = key in seen.marks_over or any(of == key for of, _ in seen.over)
    return is_over or _was_refused(seen, key)


@invariant("S22", "tree told", "each end of a tree has an id, and a later one a greater sequence")
def one_id_for_each_end(seen: Seen, event: dict[str, Any]) -> str | None:
    if any(key.startswith(f"{_root(event)}/") for key in seen.expired):
        return None  # months went by for a job of a backfill, and not for the backfill
    for other in seen.told_trees:
        if _root(other) != _root(event) or other["run"] != event["run"]:
            continue
        is_same = other["id"] == event["id"]
        if is_same and other["jobs"] != event["jobs"]:
            return f"{other} was told, and then {event}"
        if not is_same and other["sequence"] == event["sequence"]:
            return f"{other} was told, and then {event}, with the same sequence"
    return None


@invariant("L15", "the end", "the last end of each tree and each backfill is told, as it was")
def each_end_is_told(seen: Seen, _: None) -> str | None:
    if not seen.world.plan.trees or _may_lose(seen):
        return None
    for root, row in seen.rows.items():
        keys = list(keys_below(seen, root))
        is_tree = row["state"]["S"] == "SUCCEEDED" and "lineage" not in row and keys[1:]
        if is_tree and (problem := _told_otherwise(seen, root, keys)):
            return problem
    for root, item in seen.backfills.items():
        if is_sending(item):
            # Before its command went on it may have ended.
            latest = seen.sending_since[root] + seen.asked.doubt
            for told in seen.told_trees:
                if _root(told) == root and datetime.fromisoformat(told["ended_at"]) > latest:
                    return f"{told} was told of a backfill that has jobs to send"
        elif problem := _told_otherwise(seen, root, list(_sent_keys(seen, root, item))):
            return problem
    return None


def _told_otherwise(seen: Seen, root: str, keys: list[str]) -> str | None:
    """What is wrong with the event that was told last, where all of it has ended."""
    rows = [seen.rows.get(key) for key in keys]
    if not all(each and each["state"]["S"] in _ENDED and "owed" not in each for each in rows):
        return None
    told = [each for each in seen.told_trees if _root(each) == root]
    is_as = Counter(each["state"]["S"] for each in rows if each)
    last = max(told, key=lambda each: each["sequence"], default=None)
    states: Counter[str] = Counter()
    for each in (last or {"jobs": {}})["jobs"].values():
        states.update(each)
    waits = states.pop("WAITS", 0)
    # A join that waits for a member that runs again has the row of its last run meanwhile.
    is_told = states <= is_as and (is_as - states).total() <= waits
    return None if is_told else f"{root} ended {dict(is_as)}; told last: {last}"


def is_sending(item: Mapping[str, Any]) -> bool:
    """Whether the item of a backfill says that jobs are still to be sent."""
    began_at, cancelled_at = (
        int(item.get(name, {"N": "-1"})["N"]) for name in ("began_at", "cancelled_at")
    )
    return "left_values" in item and cancelled_at < began_at


def _sent_keys(seen: Seen, root: str, item: Mapping[str, Any]) -> Iterator[str]:
    for value in sorted(item["sent_values"]["SS"]):
        yield from keys_below(seen, f"{root}/{value}")


_ENDED = ("SUCCEEDED", "DEAD", "CANCELLED")


def _root(event: dict[str, Any]) -> str:
    return f"{event['stage']}#{event['job_id']}"


def keys_below(seen: Seen, key: str) -> Iterator[str]:
    """A job and what followed from its latest success; what an earlier run has sent apart."""
    yield key
    if seen.success_of(key) is not None:
        for place in list(seen.families.followed.get(key, ())):
            for latest in seen.families.keys_at(key, place)[-1:]:
                yield from keys_below(seen, latest)


def _was_refused(seen: Seen, key: str) -> bool:
    job_id = key.partition("#")[2]
    return any(each.reason.get("key") == key or each.job_id == job_id for each in seen.dead_letters)


def _may_lose(seen: Seen) -> bool:
    """Whether messages, rows, or what is told may be lost."""
    acts = seen.world.plan.acts
    is_long = any(act.kind == "outage" and act.for_s >= _LONG_OUTAGE_S for act in acts)
    kinds = {act.kind for act in acts}
    is_lossy = kinds & {"purge", "lose", "lose_released", "retire", "expire", "submit_forged"}
    return bool(is_long or is_lossy or seen.purged_keys or seen.expired or seen.retired)


_GIVEN_UP_S = 86_400


@invariant("S17", "told", "a run's end is told under one id, with one outcome")
def one_id_for_each_run(seen: Seen, event: dict[str, Any]) -> str | None:
    for other in seen.told:
        same_run = event["run"] is not None and _run_of(other) == _run_of(event)
        if (same_run or other["id"] == event["id"]) and _essence(other) != _essence(event):
            return f"{_essence(other)} was told, and then {_essence(event)}"
    return None


@invariant("S17", "told", "nothing is told before it is done")
def done_before_told(seen: Seen, event: dict[str, Any]) -> str | None:
    key, run = _run_of(event)
    if event["outcome"] == "SUCCEEDED":
        outputs = [
            (seen.output_of(token), *kept(AttemptId(*token).token))
            for token in seen.committed
            if token[:2] == (key, run) and seen.shows(token)
        ]
        told = event["output"], event["result"], event["metrics"]
        is_done = outputs[-1:] == [told]
    elif event["outcome"] == "CANCELLED":
        is_done = "CANCELLED" in seen.ends[key, run]
    else:
        is_done = any(
            letter.reason.get("class") == event["class"]
            and letter.reason.get("run") == run
            and letter.reason.get("key") == (key if event["job_id"] else None)
            for letter in seen.dead_letters
        )
    return None if is_done else f"{event} was told, and is not so"


@invariant("L12", "the end", "every end is told, as it was")
def every_end_is_told(seen: Seen, _: None) -> str | None:
    if not seen.world.plan.notify:
        return None
    told = {_run_of(event): event["outcome"] for event in seen.told}
    for (key, run), state in seen.over.items():
        is_removed = key.partition("#")[0] in seen.retired
        if is_removed or seen.asked.untold_s.get(f"{key_hash(key)}-{run}", 0) >= _GIVEN_UP_S:
            continue
        if told.get((key, run)) != state:
            return f"run {run} of {key} ended {state}; told: {told.get((key, run))}"
    if seen.world.injector.fired or seen.retired:
        return None
    refused = {(each["class"], each["reason"]) for each in seen.told if each["run"] is None}
    for letter in seen.dead_letters:
        why = letter.reason.get("class"), letter.reason.get("reason")
        if "class" in letter.reason and "run" not in letter.reason and why not in refused:
            return f"the dead letter {letter.reason} was not told"
    return None


@invariant("L12", "the end", "a success that is told is told as OpenLineage says it, too")
def every_success_is_a_whole_run(seen: Seen, _: None) -> str | None:
    if seen.world.plan.notify != "events":
        return None
    if max(seen.asked.untold_s.values(), default=0) >= _GIVEN_UP_S:
        return None  # one of its events may be lost
    kinds: dict[str, set[str]] = defaultdict(set)
    wrote: dict[str, str] = {}  # the run whose token its output's version is, by id
    for event in seen.run_events:
        kinds[event["run"]["runId"]].add(event["eventType"])
        for output in event["outputs"]:
            token = output["facets"]["version"]["datasetVersion"]
            wrote[event["run"]["runId"]] = token.rpartition("-")[0]
    for found in kinds.values():
        if "START" not in found or len(found) > 2:
            return f"a run had the events {sorted(found)}"
    whole = {wrote[each] for each, found in kinds.items() if found == {"START", "COMPLETE"}}
    for (key, run), state in seen.over.items():
        is_told = any(_run_of(event) == (key, run) for event in seen.told)
        is_whole = f"{key_hash(key)}-{run}" in whole
        if state == "SUCCEEDED" and is_told and not is_whole:
            return f"run {run} of {key} is no run of OpenLineage's"
    return None


def _run_of(event: dict[str, Any]) -> tuple[str, int | None]:
    return f"{event['stage']}#{event['job_id']}", event["run"]


def _essence(event: dict[str, Any]) -> dict[str, Any]:
    names = ("id", "stage", "job_id", "run", "outcome", "output", "result")
    return {name: event[name] for name in names}
