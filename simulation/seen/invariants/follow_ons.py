"""Pipelines: what follows from a success, and how a fan-out is joined."""

from typing import TYPE_CHECKING

from simulation.seen.invariants.table import invariant
from simulation.worlds.stages import JOINS, SHAPES, members_of

if TYPE_CHECKING:
    from simulation.seen.record import Seen
    from simulation.seen.sightings import Sent, Token


@invariant(
    "S12", "message added", "nothing follows from a job that has not committed and published"
)
def follows_a_success(seen: "Seen", sent: "Sent") -> str | None:
    if sent.parent is None or seen.success_of(sent.parent) is not None:
        return None
    return f"{sent.key} follows from {sent.parent}, which is not published"


@invariant("S12", "message added", "each job that follows has one id, however often it is sent")
def one_id_for_each(seen: "Seen", sent: "Sent") -> str | None:
    if sent.parent is None:
        return None
    keys = seen.families.keys_at(sent.parent, seen.families.place_of(sent))
    return (
        f"{' and '.join(keys)} are the same follow-on of {sent.parent}" if len(keys) > 1 else None
    )


@invariant("S12", "message added", "what a job emitted is sent as it was emitted, and nothing else")
def sent_as_emitted(seen: "Seen", sent: "Sent") -> str | None:
    if sent.parent is None or sent.stage in JOINS:
        return None
    families, parent = seen.families, seen.job_of(sent.parent)
    place, groups = int(families.place_of(sent)), sent.request["lineage"]["groups"]
    success = seen.success_of(sent.parent)
    if place not in families.places(sent.parent) or success is None:
        return f"{sent.parent} emitted no {sent.job}"
    fan_out = families.fan_out(sent.parent)
    own = {
        "of": sent.parent,
        "run": success.run,
        "n": place,
        "size": 1 if fan_out is None else fan_out,
    }
    if fan_out is None:
        as_asked = list(sent.request["inputs"].values()) == [_output(seen, sent.parent)]
    else:
        as_asked = sent.request["params"]["name"] == members_of(parent)[place]
    if not groups and seen.was_retired:  # claimed as no join was behind it
        return None if as_asked else f"{sent.key} is sent as {sent.request}"
    *outer, innermost = groups
    is_placed = innermost | own == innermost and outer == families.groups_of(sent.parent)
    return (
        None
        if is_placed and as_asked
        else f"{sent.key} is sent as {sent.request}, in {groups}, not {own}"
    )


@invariant(
    "S12", "execution started", "what claims to follow from another job, and does not, never starts"
)
def forged_never_starts(seen: "Seen", token: "Token") -> str | None:
    if token.key not in seen.forged_keys:
        return None
    # A genuine follow-on may have the same id.
    genuine = any(each.message.id not in seen.forged for each in seen.sent_by_key[token.key])
    return None if genuine else f"{token.key} started, which nothing led to"


@invariant(
    "S13",
    "message added",
    "a join is sent when every member is published, with the output of each once, in order",
)
def join_is_whole(seen: "Seen", sent: "Sent") -> str | None:
    if sent.parent is None or sent.stage not in JOINS:
        return None
    families, shape = seen.families, SHAPES[seen.world.plan.shape]
    # A person may run it again while a job that it waits for does.
    if not families.opens(sent.parent, sent.stage) or sent.message.id in seen.reruns:
        return None
    if families.opener_of(sent.parent, sent.stage) != sent.parent:
        return f"{sent.key} joins {sent.parent}, which is no {shape.openers[sent.stage]}"
    members = list(families.collected(sent.parent, sent.stage))
    if None in members:
        return f"{sent.key} is sent, and not all that {sent.parent} led to is published: {members}"
    if families.is_incomplete(sent.parent):
        return None  # redriven: it is refused again
    wanted: dict[str, str] = {}
    for n, key in enumerate(members):
        if (output := _output(seen, str(key))) not in wanted.values():
            wanted[f"{shape.before(sent.stage)}_{n:05}"] = output
    found = seen.stored_inputs(sent.request["lineage"]["inputs_ref"])
    return (
        None
        if list(found.items()) == list(wanted.items())
        else f"{sent.key} gets {found}, not {wanted}"
    )


@invariant(
    "L8",
    "the end",
    "what follows from a success is sent: all that was emitted, and the join when all is there",
)
def everything_follows(seen: "Seen", _: None) -> str | None:
    if not seen.labels and not seen.world.plan.clean_slots:
        return None
    successes = (
        key for key in seen.rows if key not in seen.lost and seen.success_of(key) is not None
    )
    return next(
        (unsent for key in successes if (unsent := seen.families.unsent(key)) is not None), None
    )


@invariant(
    "L17",
    "the end",
    "what follows from a success has run for its latest run, and a join for all that it waits for",
)
def follows_the_latest(seen: "Seen", _: None) -> str | None:
    excused = seen.purged_keys | seen.expired | seen.lost
    for sent in seen.families.latest():
        row = seen.rows.get(sent.key)
        if row is None or sent.key in excused or seen.letters_of(sent):
            continue
        led_by = seen.led_by.get((sent.key, int(row["run"]["N"])), 0)
        if led_by < sent.led_by and not seen.asked.is_cancelled(sent):
            return f"{sent.key} follows from run {sent.led_by}, and has run for {led_by}"
    return None


def _output(seen: "Seen", key: str) -> str:
    success = seen.success_of(key)
    return seen.output_of(success) if success else ""
