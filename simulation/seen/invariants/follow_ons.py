"""Follow-ons and the stages that they are in: what is sent, how often, and where."""

import json
from datetime import timedelta

from simulation.seen.checks import invariant
from simulation.seen.record import Seen
from simulation.seen.sightings import Row, Sent, Token, time_in
from simulation.worlds.stages import JOINS, SHAPES, members_of


@invariant(
    "S12", "message added", "nothing follows from a job that has not committed and published"
)
def follows_a_success(seen: Seen, sent: Sent) -> str | None:
    if sent.parent is None or seen.success_of(sent.parent) is not None:
        return None
    return f"{sent.key} follows from {sent.parent}, which is not published"


@invariant("S12", "message added", "each job that follows has one id, however often it is sent")
def one_id_for_each(seen: Seen, sent: Sent) -> str | None:
    if sent.parent is None:
        return None
    keys = seen.families.keys_at(sent.parent, seen.families.place_of(sent))
    return (
        f"{' and '.join(keys)} are the same follow-on of {sent.parent}" if len(keys) > 1 else None
    )


@invariant("S12", "message added", "what a job emitted is sent as it was emitted, and nothing else")
def sent_as_emitted(seen: Seen, sent: Sent) -> str | None:
    if sent.parent is None or sent.stage in JOINS:
        return None
    families, parent = seen.families, seen.job_of(sent.parent)
    place, groups = int(families.place_of(sent)), sent.request["lineage"]["groups"]
    success = seen.success_of(sent.parent)
    if place not in families.places(sent.parent) or success is None:
        return f"{sent.parent} emitted no {sent.job}"
    if sent.message.id in seen.reruns and sent.led_by < success.run:
        return None  # a person runs it again while what the later run of its parent sent waits
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
    if not groups and seen.retired:  # claimed as no join was behind it
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
def forged_never_starts(seen: Seen, token: Token) -> str | None:
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
def join_is_whole(seen: Seen, sent: Sent) -> str | None:
    if sent.parent is None or sent.stage not in JOINS:
        return None
    families, shape = seen.families, SHAPES[seen.world.plan.shape]
    # A person may run it again, or it be copied as it was, while a job that it waits for does.
    is_as_before = sent.message.id in seen.reruns or sent.renews is not None
    if is_as_before or not families.opens(sent.parent, sent.stage):
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
    # Stored beside its request.
    found = json.loads(seen.objects()[sent.request["lineage"]["inputs_ref"]].body)
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
def everything_follows(seen: Seen, _: None) -> str | None:
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
def follows_the_latest(seen: Seen, _: None) -> str | None:
    excused = seen.purged_keys | seen.expired | seen.lost
    for sent in seen.families.latest():
        row = seen.rows.get(sent.key)
        if row is None or sent.key in excused or seen.letters_of(sent):
            continue
        led_by = seen.led_by.get((sent.key, int(row["run"]["N"])), 0)
        if led_by < sent.led_by and not seen.asked.is_cancelled(sent):
            return f"{sent.key} follows from run {sent.led_by}, and has run for {led_by}"
    return None


def _output(seen: Seen, key: str) -> str:
    success = seen.success_of(key)
    return seen.output_of(success) if success else ""


_OUTAGE = timedelta(seconds=10_000)  # longer than any outage
# Two sweeps, each of which raises a limit that has been calm for a minute.
_LIMIT_RISES_WITHIN = timedelta(seconds=2 * 300 + 120)
_STARTED_WITHIN_S = 45  # two cold starts, a poll, slow calls


@invariant(
    "S10",
    "slots written",
    "a stage's taken slots are those of its running jobs, and no more than it has",
)
def slots_are_those_that_run(seen: Seen, before: Row, counter: Row) -> str | None:
    stage = counter["key"]["S"].partition("#")[2]
    taken = _taken(counter)
    running = len(seen.running[stage])
    limit = _slots_of(counter, seen.world.stages[stage].slots)
    # With fewer slots, nothing is stopped.
    if taken != running or taken > max(limit, _taken(before)):
        return f"{taken} of {limit} slots of {stage} are taken, and {running} of its jobs run"
    return None


@invariant("S16", "slots written", "no job of a paused stage starts")
def nothing_starts_in_a_paused_stage(_: Seen, before: Row, counter: Row) -> str | None:
    if "paused_at" in before and _taken(counter) > _taken(before):
        return f"a slot of {counter['key']['S']} was taken"
    return None


def _taken(counter: Row) -> int:
    return int(counter.get("running", {"N": "0"})["N"])


def _slots_of(counter: Row, deployed: int) -> int:
    """The operator's number, or the deployed."""
    return int(counter.get("operator_slots", {"N": deployed})["N"])


@invariant("L9", "execution ended", "a limit that a refusal has lowered rises again, step by step")
@invariant("L9", "the end", "a limit that a refusal has lowered rises again, step by step")
def limit_recovers(seen: Seen, _: object) -> str | None:
    world = seen.world
    if world.injector.fired_since(seen.now - _LIMIT_RISES_WITHIN - _OUTAGE):
        return None
    rows = world.aws.dynamodb.tables[world.settings.leases_table].rows
    for stage in world.settings.stages:
        found = rows.get((f"slots#{stage.name}", "slots"))
        item = (found and found.item) or {}
        slots = _slots_of(item, stage.slots)
        if int(item.get("effective_limit", {"N": slots})["N"]) >= slots:
            continue
        still = seen.now - time_in(item, "limit_changed_at")
        if still > _LIMIT_RISES_WITHIN + timedelta(seconds=2 * world.plan.mix.skew_s):
            limit = item["effective_limit"]["N"]
            return f"{stage.name} has had {limit} of {slots} slots for {still}"
    return None


@invariant(
    "L7",
    "execution started",
    "a job starts when it is sent, if its stage has room, whatever happens in other stages",
)
def starts_when_due(seen: Seen, token: Token) -> str | None:
    world = seen.world
    if (
        token.attempt != 1
        or world.plan.mix.skew_s
        or seen.was_narrowed  # a refused job may be redriven later
        or seen.retired
        or token.key in seen.expired
        or not seen.has_room(token.key.partition("#")[0])
    ):
        return None
    sent_at = min(
        each.at for each in seen.sent_by_key[token.key] if each.message.id not in seen.forged
    )
    troubled = world.injector.fired_since(sent_at - _OUTAGE)
    if troubled or token.key in seen.purged_keys or token.key in seen.asked.cancels:
        return None
    waited_s = (seen.now - sent_at).total_seconds()
    return (
        f"{token} began {waited_s:.0f} s after it was due"
        if waited_s > _STARTED_WITHIN_S + seen.launches_s
        else None
    )


@invariant("S25", "role passed", "no job gets the role of another stage")
def role_of_its_stage(_seen: Seen, role_of: str, stage: str) -> str | None:
    return None if role_of == stage else f"a job of {stage} gets the role of {role_of}"
