"""Scenarios, and every fault at every place of them, alone and in pairs."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from simulation.worlds.engines import EMR_WORLDS, TINY_WORLDS
from simulation.worlds.governed import GOVERNED_WORLDS
from simulation.worlds.injection import Site
from simulation.worlds.leftovers import LEFTOVERS
from simulation.worlds.parts import PARTS_WORLDS
from simulation.worlds.plan import Act, Ending, Fault, Job, Plan, world_of
from simulation.worlds.regressions import REGRESSIONS
from simulation.worlds.requests import SEALED
from simulation.worlds.run import run
from simulation.worlds.secrets import SECRET_WORLDS
from simulation.worlds.tables import TABLE_WORLDS
from simulation.worlds.trees import TREE_WORLDS

# The faults of a call that differ in their effect: nothing done, done without an answer, done
# twice, a process dead before or after, a process that acts on what it read seconds ago.
_TELLING = frozenset(
    {
        "unavailable/before/all",
        "lost/after/all",
        "lost/after/1",
        "crash/before",
        "crash/after",
        "hang/after",
        "slow/6",
        "conflict/before/1",
        "disguised/before/all",
        "gone/400",
        "repeats/400",
        "fails/40",
    }
)
_SUBMIT = Act(1.0, "submit", "j0")


def _slow(*completions: str) -> Plan:
    """A runner dies after its commit, and S3 completes its upload like this, time after time."""
    faults = tuple(Fault("complete:j0-1", n, kind) for n, kind in enumerate(completions, 1))
    job = Job("j0", work_s=9.0, files=1, endings=(Ending("dies_after_commit"),))
    return world_of(job, faults=faults)


SCENARIOS: Mapping[str, Plan] = {
    "a job succeeds": world_of(Job("j0", work_s=9.0)),
    "a job fails, then succeeds": world_of(Job("j0", work_s=9.0, endings=(Ending("fails", 2.0),))),
    "a job fails for good": world_of(
        Job("j0", work_s=9.0, endings=(Ending("crashes", 2.0),), poison=True), max_attempts=2
    ),
    # Each time in the next size, which is no failure: there is one attempt only.
    "a job's disk is too small three times": world_of(
        Job("j0", work_s=9.0, endings=(Ending("disk_full", 2.0),) * 3), max_attempts=1
    ),
    "a job cannot succeed": world_of(Job("j0", work_s=9.0, endings=(Ending("permanent", 2.0),))),
    "a job dies as it commits": world_of(
        Job("j0", work_s=9.0, endings=(Ending("dies_before_commit"),))
    ),
    "a job's uploads end before they are published": world_of(
        Job("j0", work_s=9.0, endings=(Ending("uploads_end"),))
    ),
    "a job is deaf": world_of(
        Job("j0", work_s=9.0, stall_timeout_s=60, endings=(Ending("hangs", 2.0),))
    ),
    "a job hangs": world_of(
        Job("j0", work_s=9.0, stall_timeout_s=60, endings=(Ending("jvm_hangs", 2.0),))
    ),
    "a job dies between commit and publish": world_of(
        Job("j0", work_s=9.0, endings=(Ending("dies_after_commit"),))
    ),
    "a job is called dead, and works on": world_of(
        Job("j0", work_s=300.0, endings=(Ending("cut_off", 5.0),))
    ),
    "a job is called dead as it commits": world_of(
        Job("j0", work_s=9.0, endings=(Ending("cut_off", 9.5),))
    ),
    "a job outlasts what SQS holds a message": world_of(
        Job("j0", work_s=13 * 3_600.0, timeout_s=86_400)
    ),
    "a job is interrupted": world_of(Job("j0", work_s=60.0, endings=(Ending("spot", 5.0),))),
    "a job is cancelled": world_of(Job("j0", work_s=120.0), Act(90.0, "cancel", "j0")),
    "a job is cancelled as it commits": world_of(Job("j0", work_s=9.0), Act(73.0, "cancel", "j0")),
    "a deaf job is cancelled, and submitted again while it is being stopped": world_of(
        Job("j0", work_s=9.0, endings=(Ending("hangs", 2.0),)),
        Act(90.0, "cancel", "j0"),
        Act(120.0, "submit", "j0"),
    ),
    "a deaf job is cancelled while its next attempt waits, and submitted again": world_of(
        Job("j0", work_s=9.0, stall_timeout_s=60, endings=(Ending("hangs", 2.0),)),
        Act(150.0, "cancel", "j0"),
        Act(160.0, "submit", "j0"),
    ),
    "an execution is stopped by hand": world_of(
        Job("j0", work_s=900.0), Act(800.0, "stop_execution", "j0")
    ),
    "the same work is submitted twice": world_of(Job("j0", work_s=9.0), Act(20.0, "submit", "j0")),
    "other work is submitted under the key": world_of(
        Job("j0", work_s=9.0), Act(20.0, "submit", "j0", work=1)
    ),
    "a message comes again": world_of(
        Job("j0", work_s=9.0), Act(60.0, "redeliver", "j0"), Act(150.0, "redeliver", "j0")
    ),
    "a message wears out": world_of(
        Job("j0", work_s=9.0), Act(40.0, "redeliver", "j0"), renew_receives=2
    ),
    "two jobs append to one output": replace(
        world_of(Job("j0", work_s=9.0), Act(1.0, "submit", "j1")),
        jobs=(
            Job("j0", work_s=9.0, output="log", mode="append"),
            Job("j1", work_s=9.0, output="log", mode="append"),
        ),
    ),
    "a job compacts an output to which another appends meanwhile": replace(
        world_of(
            Job("j0", work_s=9.0),
            Act(300.0, "submit", "j1"),
            Act(390.0, "submit", "j2"),
        ),
        jobs=(
            Job("j0", work_s=9.0, output="log", mode="append"),
            Job("j1", work_s=400.0, output="log", compacts=True),
            Job("j2", work_s=9.0, output="log", mode="append"),
        ),
    ),
    "a job writes to a prefix beside its output": world_of(
        Job("j0", work_s=9.0, files=1, beside=True)
    ),
    "a job appends to two outputs and dies after its commit": world_of(
        Job(
            "j0",
            work_s=9.0,
            mode="append",
            beside=True,
            endings=(Ending("dies_after_commit"),),
        )
    ),
    "uploads of a job with two outputs end": world_of(
        Job("j0", work_s=9.0, files=1, beside=True, endings=(Ending("uploads_end"),))
    ),
    "an end is told to a topic": world_of(
        Job("j0", work_s=9.0, endings=(Ending("dies_after_commit"),)), notify="sns"
    ),
    "a death is told to a queue": world_of(
        Job("j0", work_s=9.0, endings=(Ending("permanent", 2.0),)), notify="sqs"
    ),
    "an end is told to a bus, and as OpenLineage says it": world_of(
        Job("j0", work_s=9.0, endings=(Ending("dies_after_commit"),)), notify="events"
    ),
    "a cancel is told to a bus": world_of(
        Job("j0", work_s=120.0), Act(90.0, "cancel", "j0"), notify="events"
    ),
    "a backfill of a plain stage is interrupted, and goes on": Plan(
        jobs=(Job("days/a", work_s=9.0, files=1), Job("days/b", work_s=9.0, files=1)),
        acts=(Act(1.0, "backfill", "days", work=1), Act(60.0, "backfill", "days")),
        faults=(),
        notify="sns",
        trees=True,
    ),
    "a job waits for a slot": replace(
        world_of(Job("j0", work_s=9.0), Act(2.0, "submit", "j1"), slots=1),
        jobs=(Job("j0", work_s=9.0), Job("j1", work_s=9.0)),
    ),
}


LONG = (
    "a job outlasts what SQS holds a message",
    "a job is called dead, and works on",
    "an execution is stopped by hand",
)
"""Scenarios of many beats: they have thousands of places each."""


def _pipeline(*jobs: Job, acts: tuple[Act, ...] = (), **changes: int | str) -> Plan:
    return replace(world_of(jobs[0], *acts, **{"clean_slots": 10, **changes}), jobs=jobs)


_THREE = Job("j0", work_s=9.0, files=1, fan_out=3)

PIPELINES: Mapping[str, Plan] = {
    "a fan-out is joined": _pipeline(_THREE),
    "a job is followed by one in each stage": _pipeline(Job("j0", work_s=9.0, files=1)),
    "a job emits nothing on purpose": _pipeline(Job("j0", work_s=9.0, files=1, fan_out=0)),
    "a member fails, then succeeds": _pipeline(
        _THREE, Job("j0.1", work_s=9.0, endings=(Ending("fails", 2.0),))
    ),
    "a member dies for good, and is corrected": _pipeline(
        _THREE,
        Job("j0.1", work_s=9.0, endings=(Ending("fails", 2.0),), poison=True),
        acts=(Act(900.0, "correct", "j0.1", work=1),),
        max_attempts=2,
    ),
    "a member is cancelled while it waits, and corrected": _pipeline(
        _THREE,
        acts=(Act(180.0, "cancel", "j0.1"), Act(900.0, "correct", "j0.1", work=1)),
        clean_slots=1,
    ),
    "a fan-out's uploads end before they are published": _pipeline(
        Job("j0", work_s=9.0, files=1, fan_out=2, endings=(Ending("uploads_end"),)),
        Job("j0.0", work_s=9.0, endings=(Ending("uploads_end"),)),
    ),
    "a job dies between commit and publish, and a member as it commits": _pipeline(
        Job("j0", work_s=9.0, files=1, fan_out=2, endings=(Ending("dies_after_commit"),)),
        Job("j0.1", work_s=9.0, endings=(Ending("dies_before_commit"),)),
    ),
    "members append to one table": _pipeline(
        _THREE,
        *(Job(f"j0.{n}", work_s=9.0, files=1, table="events", mode="append") for n in range(3)),
    ),
    "more members than SQS takes at once": _pipeline(Job("j0", work_s=9.0, files=1, fan_out=12)),
    "a tree with a join within a join runs again": _pipeline(
        Job("j0", work_s=9.0, files=1), acts=(Act(1_800.0, "rerun", "j0"),), shape="nested"
    ),
}
"""Three stages each: what `j0` emits, or its follow-on, goes through `clean`; `sum` joins it."""

FAMILIES: Sequence[Mapping[str, Plan]] = (
    EMR_WORLDS,
    GOVERNED_WORLDS,
    LEFTOVERS,
    PARTS_WORLDS,
    REGRESSIONS,
    SECRET_WORLDS,
    TABLE_WORLDS,
    TINY_WORLDS,
    TREE_WORLDS,
)
"""Worlds that each bring something rare about, in few and short jobs."""

RACES: Mapping[str, Plan] = {
    **{name: plan for worlds in FAMILIES for name, plan in worlds.items()},
    "SQS is out for two hours": world_of(
        Job("j0", work_s=9.0),
        Act(20.0, "outage", for_s=7_200.0, service="sqs"),
        Act(7_500.0, "submit", "j0"),  # the faults of a world end an hour after its last act
    ),
    **{
        f"a sender forges a lineage, {variant}": replace(
            world_of(Job("j0", work_s=9.0, files=1, fan_out=2)),
            jobs=(Job("j0", work_s=9.0, files=1, fan_out=2), Job("j0.0", work_s=600.0)),
            acts=(_SUBMIT, Act(200.0, "submit_forged", "j0", work=variant)),
            clean_slots=10,
        )
        for variant in range(SEALED + 1)
    },
    # The slow one has read the row before the other, and adopts its own receive after it.
    "of two dispatchers with one message the slow one has the older receive": replace(
        world_of(
            Job("j0", work_s=120.0), Act(100.0, "redeliver", "j0"), Act(101.0, "redeliver", "j0")
        ),
        faults=(Fault("dispatcher@m3#1", 2, "slow/6"),),
    ),
    # The dispatcher has read the slots, and is slow to claim: meanwhile the stage is paused.
    "a stage is paused while a dispatcher claims": replace(
        world_of(Job("j0", work_s=9.0, files=1), Act(4.0, "pause", "j0", for_s=9_000.0)),
        faults=(Fault("dispatcher@m1#1", 2, "slow/6"),),
    ),
    "a stage is paused while a job fails, and has fewer slots afterwards": world_of(
        Job("j0", work_s=9.0, files=1, endings=(Ending("fails", 2.0),)),
        Act(1.0, "submit", "j1"),
        Act(70.0, "pause", "j0", for_s=30_000.0),
        Act(71.0, "set_slots", "j0", 1, 60_000.0),
        Act(80.0, "submit", "j2"),
        jobs=tuple(Job(f"j{n}", work_s=90.0, files=1) for n in range(3)),
    ),
    "S3 is out for an hour": world_of(
        Job("j0", work_s=9.0), Act(0.5, "outage", for_s=3_600.0, service="s3")
    ),
    "a job fails, and its request is lost": world_of(
        Job("j0", work_s=90.0, endings=(Ending("fails", 60.0),)), Act(60.0, "lose", "j0")
    ),
    "a sender's attributes resemble ours, and the job is dead": replace(
        world_of(Job("j0", work_s=9.0, endings=(Ending("permanent", 2.0),))),
        acts=(Act(1.0, "submit_hostile", "j0"),),
    ),
    # Settle has read the row, and is slow to write: meanwhile the runner commits.
    "a job commits while its failure is settled": replace(
        SCENARIOS["a job is called dead as it commits"],
        faults=(Fault("settle@j0-1#1", 2, "slow/6"),),
    ),
    # The beat has read the row, and is slow to extend: meanwhile the attempt is settled, and its
    # message released. No event wakes the sweeper.
    "a beat extends what settle has released": replace(
        world_of(Job("j0", work_s=9.0, endings=(Ending("fails", 7.0),))),
        faults=(Fault("heartbeat@j0-1#5", 2, "slow/6"), Fault("event:j0-1", 1, "lost")),
    ),
    "two appends are published at once": replace(
        SCENARIOS["two jobs append to one output"], faults=(Fault("task@j1-1.1", 25, "slow/40"),)
    ),
    "settle dies right after it has sent what a job emitted": replace(
        PIPELINES["a fan-out is joined"], faults=(Fault("settle@j0-1#1", 5, "crash/after"),)
    ),
    "settle dies right after a member has arrived": replace(
        PIPELINES["a fan-out is joined"], faults=(Fault("settle@j0.1-1#1", 4, "crash/after"),)
    ),
    "SQS takes some of what a job emitted, and not all": replace(
        PIPELINES["a fan-out is joined"], faults=(Fault("entry:SendMessage", 2, "fails"),)
    ),
    "nothing stops a task that is deaf but settle": replace(
        SCENARIOS["a job is deaf"], faults=(Fault("stop:stopTask@j0-1", 1, "not stopped"),)
    ),
    # Only the sweep sees what is left: there is no try of settle, no event, no message.
    "settle dies right after it has deleted the message": replace(
        world_of(Job("j0", work_s=9.0), Act(82.6, "stop_execution", "j0")),
        faults=(Fault("settle@j0-1#1", 3, "crash/after"), Fault("event:j0-1", 1, "lost")),
    ),
    "an execution is stopped, its event is lost and its message purged": replace(
        world_of(Job("j0", work_s=900.0), Act(800.0, "stop_execution", "j0"), Act(801.0, "purge")),
        faults=(Fault("event:j0-1", 1, "lost"),),
    ),
    # The sweep has read the row: meanwhile the runner publishes, and another tool replaces the
    # manifest, so that the published output seems to have another one in its way.
    "a published output's manifest is replaced while its attempt is settled": replace(
        world_of(
            Job("j0", work_s=9.0, files=1, mode="append"),
            Act(75.0, "stop_execution", "j0"),
            Act(100.0, "replace_manifest", "j0"),
        ),
        faults=(Fault("complete:j0-1", 1, "waits/5"), Fault("sweeper@j0-1#1", 2, "slow/40")),
    ),
    # The SDK sends it again, and the row says that it is committed.
    "the answer to a commit is lost": replace(
        world_of(Job("j0", work_s=9.0, files=1)), faults=(Fault("task@j0-1.1", 15, "lost/after/1"),)
    ),
    # S3 is still at work for the runner that died: the next publisher finds nothing.
    "a runner dies while S3 completes its uploads": replace(
        world_of(Job("j0", work_s=9.0, endings=(Ending("infrastructure", 10.0),))),
        faults=(Fault("complete:j0-1", 1, "gone/400"), Fault("complete:j0-1", 2, "repeats/400")),
    ),
    # Settle tries until its time is up; meanwhile the uploads look gone to others. They are pending
    # again at the second look, and S3 is at work for that publisher when the next one comes.
    "completions fail for long, and look gone to two publishers": _slow(
        "fails/400", "fails/400", "fails/120", "gone/400"
    ),
    "completions fail for an hour, and look gone to all publishers": _slow(
        *["fails/400"] * 5, "gone/400"
    ),
    # Its beats fail, and its lease expires, but the job lives.
    "SQS is out while a job works": world_of(
        Job("j0", work_s=1_500.0), Act(300.0, "outage", for_s=900.0, service="sqs")
    ),
    # Twenty refusals take an hour or two.
    "Fargate has no room for half a day": world_of(
        Job("j0", work_s=9.0),
        Act(2.0, "outage", for_s=43_200.0, service="capacity"),
        Act(44_400.0, "submit", "j1"),
        jobs=(Job("j0", work_s=9.0), Job("j1", work_s=9.0)),
        slots=3,
    ),
    # People mend a right or a subnet after as long, and then all that waited runs.
    "AWS refuses each task for half a day, and not for lack of room": world_of(
        Job("j0", work_s=9.0),
        Act(2.0, "outage", for_s=43_200.0, service="rights"),
        Act(44_400.0, "submit", "j1"),
        jobs=(Job("j0", work_s=9.0), Job("j1", work_s=9.0)),
        slots=3,
    ),
    # 16 events each 20 s would fill the history of 25,000 within nine hours.
    "a job's beats fail for half a day": world_of(
        Job("j0", work_s=86_400.0, timeout_s=172_800),
        Act(900.0, "outage", for_s=43_200.0, service="heartbeat"),
    ),
    "DynamoDB is out for longer than a stall timeout while a job works": world_of(
        Job("j0", work_s=3_000.0, stall_timeout_s=120),
        Act(600.0, "outage", for_s=900.0, service="dynamodb"),
        max_attempts=1,
    ),
    # Its one attempt may not count as a failure.
    "a task is cut off from the network": world_of(
        Job("j0", work_s=900.0, stall_timeout_s=120, endings=(Ending("partitioned", 60.0),)),
        max_attempts=1,
    ),
    "a topic is out when an end is to be told": world_of(
        Job("j0", work_s=9.0), Act(2.0, "outage", for_s=900.0, service="sns"), notify="sns"
    ),
    "a message that can never run is told": world_of(
        Job("j0", work_s=9.0), Act(2.0, "submit_invalid"), notify="events"
    ),
    "settle dies right after it has told an end": world_of(
        Job("j0", work_s=9.0), faults=(Fault("settle@j0-1#1", 3, "crash/after"),), notify="sns"
    ),
    "a task never starts": world_of(Job("j0", work_s=9.0, endings=(Ending("never_starts"),))),
    # Only the sweep sees the end, by a lease that has expired.
    "an execution is stopped, and its event is lost": replace(
        SCENARIOS["an execution is stopped by hand"], faults=(Fault("event:j0-1", 1, "lost"),)
    ),
}
"""Two things at one moment: single faults lead there once in a thousand times."""


def faults_of(sites: list[Site]) -> Iterator[Fault]:
    """The faults of every place that differ in their effect."""
    for site, n, menu in sites:
        for kind in menu.split("|"):
            if kind in _TELLING or "/" not in kind:
                yield Fault(site, n, kind)


def sites_of(plan: Plan) -> list[Site]:
    """The places that a world passes."""
    sites: list[Site] = []
    run(plan, sites=sites)
    return sites


def single_faults(plan: Plan) -> Iterator[Plan]:
    """The scenario with each single fault."""
    for fault in faults_of(sites_of(plan)):
        yield replace(plan, faults=(fault,))


def pairs(plan: Plan, rng: random.Random, count: int) -> Iterator[Plan]:
    """Draw pairs of faults, the second anywhere after the first, also where only that one leads."""
    firsts = list(faults_of(sites_of(plan)))
    for _ in range(count):
        seconds = list(pairs_with(plan, rng.choice(firsts)))
        if seconds:
            yield rng.choice(seconds)


def pairs_with(plan: Plan, first: Fault) -> Iterator[Plan]:
    """Every pair of faults that begins with this one."""
    sites = sites_of(replace(plan, faults=(first,)))
    places = [(site, n) for site, n, _ in sites]
    for second in faults_of(sites[places.index((first.site, first.n)) + 1 :]):
        yield replace(plan, faults=(first, second))
