"""What a stage's `notify` is told."""

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from longhaul.core.lease import AttemptId, key_hash
from simulation.seen.invariants.table import invariant
from simulation.worlds.results import kept

if TYPE_CHECKING:
    from simulation.seen.record import Seen

_GIVEN_UP_S = 86_400


@invariant("S17", "told", "a run's end is told under one id, with one outcome")
def one_id_for_each_run(seen: "Seen", event: dict[str, Any]) -> str | None:
    for other in seen.told:
        same_run = event["run"] is not None and _run_of(other) == _run_of(event)
        if (same_run or other["id"] == event["id"]) and _essence(other) != _essence(event):
            return f"{_essence(other)} was told, and then {_essence(event)}"
    return None


@invariant("S17", "told", "nothing is told before it is done")
def done_before_told(seen: "Seen", event: dict[str, Any]) -> str | None:
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
def every_end_is_told(seen: "Seen", _: None) -> str | None:
    if not seen.world.plan.notify:
        return None
    told = {_run_of(event): event["outcome"] for event in seen.told}
    for (key, run), state in seen.over.items():
        is_removed = key.partition("#")[0] in seen.retired
        if is_removed or seen.asked.untold_s.get(f"{key_hash(key)}-{run}", 0) >= _GIVEN_UP_S:
            continue
        if told.get((key, run)) != state:
            return f"run {run} of {key} ended {state}; told: {told.get((key, run))}"
    if seen.world.injector.fired or seen.was_retired:
        return None
    refused = {(each["class"], each["reason"]) for each in seen.told if each["run"] is None}
    for letter in seen.dead_letters:
        why = letter.reason.get("class"), letter.reason.get("reason")
        if "class" in letter.reason and "run" not in letter.reason and why not in refused:
            return f"the dead letter {letter.reason} was not told"
    return None


@invariant("L12", "the end", "a success that is told is told as OpenLineage says it, too")
def every_success_is_a_whole_run(seen: "Seen", _: None) -> str | None:
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
