"""Not drawn but counted out: every fault at every place of a scenario, alone and in pairs."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tests.simulation.injection import Site
from tests.simulation.plan import Act, Ending, Fault, Job, Plan
from tests.simulation.run import run

# Of the faults of a call, those that differ in what they leave behind: nothing done, done and untold, done twice, a process that is gone before or after,
# one that acts on what it read seconds ago.
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
    }
)
_SUBMIT = Act(1.0, "submit", "j0")


def _plan(job: Job, *acts: Act, **changes: int) -> Plan:
    return replace(Plan(seed=0, jobs=(job,), acts=(_SUBMIT, *acts), faults=()), **changes)


SCENARIOS: Mapping[str, Plan] = {
    "a job succeeds": _plan(Job("j0", work_s=9.0)),
    "a job fails, then succeeds": _plan(Job("j0", work_s=9.0, endings=(Ending("fails", 2.0),))),
    "a job fails for good": _plan(
        Job("j0", work_s=9.0, endings=(Ending("crashes", 2.0),), poison=True), max_attempts=2
    ),
    "a job cannot succeed": _plan(Job("j0", work_s=9.0, endings=(Ending("permanent", 2.0),))),
    "a job dies as it commits": _plan(Job("j0", work_s=9.0, endings=(Ending("dies_before_commit"),))),
    "a job's uploads end before they are published": _plan(Job("j0", work_s=9.0, endings=(Ending("uploads_end"),))),
    "a job is deaf": _plan(Job("j0", work_s=9.0, stall_timeout_s=60, endings=(Ending("hangs", 2.0),))),
    "a job hangs": _plan(Job("j0", work_s=9.0, stall_timeout_s=60, endings=(Ending("jvm_hangs", 2.0),))),
    "a job dies between commit and publish": _plan(Job("j0", work_s=9.0, endings=(Ending("dies_after_commit"),))),
    "a job is called dead, and works on": _plan(Job("j0", work_s=300.0, endings=(Ending("cut_off", 5.0),))),
    "a job is called dead as it commits": _plan(Job("j0", work_s=9.0, endings=(Ending("cut_off", 9.5),))),
    "a job outlasts what SQS holds a message": _plan(Job("j0", work_s=13 * 3_600.0, timeout_s=86_400)),
    "a job is interrupted": _plan(Job("j0", work_s=60.0, endings=(Ending("spot", 5.0),))),
    "a job is cancelled": _plan(Job("j0", work_s=120.0), Act(90.0, "cancel", "j0")),
    "a job is cancelled as it commits": _plan(Job("j0", work_s=9.0), Act(73.0, "cancel", "j0")),
    "a deaf job is cancelled, and submitted again while it is being stopped": _plan(
        Job("j0", work_s=9.0, endings=(Ending("hangs", 2.0),)), Act(90.0, "cancel", "j0"), Act(120.0, "submit", "j0")
    ),
    "a deaf job is cancelled while its next attempt waits, and submitted again": _plan(
        Job("j0", work_s=9.0, stall_timeout_s=60, endings=(Ending("hangs", 2.0),)),
        Act(150.0, "cancel", "j0"),
        Act(160.0, "submit", "j0"),
    ),
    "an execution is stopped by hand": _plan(Job("j0", work_s=900.0), Act(800.0, "stop_execution", "j0")),
    "the same work is submitted twice": _plan(Job("j0", work_s=9.0), Act(20.0, "submit", "j0")),
    "other work is submitted under the key": _plan(Job("j0", work_s=9.0), Act(20.0, "submit", "j0", work=1)),
    "a message comes again": _plan(Job("j0", work_s=9.0), Act(60.0, "redeliver", "j0"), Act(150.0, "redeliver", "j0")),
    "a message wears out": _plan(Job("j0", work_s=9.0), Act(40.0, "redeliver", "j0"), renew_receives=2),
    "two jobs append to one output": replace(
        _plan(Job("j0", work_s=9.0), Act(1.0, "submit", "j1")),
        jobs=(Job("j0", work_s=9.0, output="log", mode="append"), Job("j1", work_s=9.0, output="log", mode="append")),
    ),
    "a job waits for a slot": replace(
        _plan(Job("j0", work_s=9.0), Act(2.0, "submit", "j1"), slots=1),
        jobs=(Job("j0", work_s=9.0), Job("j1", work_s=9.0)),
    ),
}


def _pipeline(*jobs: Job, acts: tuple[Act, ...] = (), **changes: int) -> Plan:
    return replace(_plan(jobs[0], *acts, **{"clean_slots": 10, **changes}), jobs=jobs)


_THREE = Job("j0", work_s=9.0, files=1, fan_out=3)

PIPELINES: Mapping[str, Plan] = {
    "a fan-out is joined": _pipeline(_THREE),
    "a job is followed by one in each stage": _pipeline(Job("j0", work_s=9.0, files=1)),
    "a job emits nothing on purpose": _pipeline(Job("j0", work_s=9.0, files=1, fan_out=0)),
    "a member fails, then succeeds": _pipeline(_THREE, Job("j0.1", work_s=9.0, endings=(Ending("fails", 2.0),))),
    "a member dies for good, and is corrected": _pipeline(
        _THREE,
        Job("j0.1", work_s=9.0, endings=(Ending("fails", 2.0),), poison=True),
        acts=(Act(900.0, "correct", "j0.1", work=1),),
        max_attempts=2,
    ),
    "a member is cancelled while it waits, and corrected": _pipeline(
        _THREE, acts=(Act(180.0, "cancel", "j0.1"), Act(900.0, "correct", "j0.1", work=1)), clean_slots=1
    ),
    "a fan-out's uploads end before they are published": _pipeline(
        Job("j0", work_s=9.0, files=1, fan_out=2, endings=(Ending("uploads_end"),)),
        Job("j0.0", work_s=9.0, endings=(Ending("uploads_end"),)),
    ),
    "a job dies between commit and publish, and a member as it commits": _pipeline(
        Job("j0", work_s=9.0, files=1, fan_out=2, endings=(Ending("dies_after_commit"),)),
        Job("j0.1", work_s=9.0, endings=(Ending("dies_before_commit"),)),
    ),
    "more members than SQS takes at once": _pipeline(Job("j0", work_s=9.0, files=1, fan_out=12)),
}
"""Each is three stages: what `j0` emits, or one that follows by itself, goes through `clean`, and is joined in `sum`."""

RACES: Mapping[str, Plan] = {
    # Settle has read the row, and is slow to write: meanwhile the runner commits.
    "a job commits while its failure is settled": replace(
        SCENARIOS["a job is called dead as it commits"], faults=(Fault("settle@j0-1#1", 2, "slow/6"),)
    ),
    # The beat has read the row, and is slow to extend: meanwhile the attempt is settled, and its message released. No event makes the sweeper look.
    "a beat extends what settle has released": replace(
        _plan(Job("j0", work_s=9.0, endings=(Ending("fails", 7.0),))),
        faults=(Fault("heartbeat@j0-1#5", 2, "slow/6"), Fault("event:j0-1", 1, "lost")),
    ),
    "two appends are published at once": replace(
        SCENARIOS["two jobs append to one output"], faults=(Fault("task@j1-1.1", 23, "slow/40"),)
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
    # Nobody but the sweep sees what is left: no try of settle, no event, no message.
    "settle dies right after it has deleted the message": replace(
        _plan(Job("j0", work_s=9.0), Act(82.6, "stop_execution", "j0")),
        faults=(Fault("settle@j0-1#1", 3, "crash/after"), Fault("event:j0-1", 1, "lost")),
    ),
    "an execution is stopped, its event is lost and its message purged": replace(
        _plan(Job("j0", work_s=900.0), Act(800.0, "stop_execution", "j0"), Act(801.0, "purge")),
        faults=(Fault("event:j0-1", 1, "lost"),),
    ),
    # Its beats fail, its lease runs out, and it lives.
    "SQS is out while a job works": _plan(Job("j0", work_s=1_500.0), Act(300.0, "outage", for_s=900.0, service="sqs")),
    # Nobody sees the end but the sweep, by a lease that has run out.
    "an execution is stopped, and its event is lost": replace(
        SCENARIOS["an execution is stopped by hand"], faults=(Fault("event:j0-1", 1, "lost"),)
    ),
}
"""Two things at one moment, at which single faults arrive one in a thousand times."""


CORE = SCENARIOS["a job succeeds"]
"""Of which all pairs of faults can be counted out."""

DEATHS = frozenset({"crash/before", "crash/after"})
"""A process dies on one side of a call or the other."""


def faults_of(sites: list[Site], kinds: frozenset[str] | None = None) -> Iterator[Fault]:
    """Every telling fault of every place, or only those of these kinds."""
    for site, n, menu in sites:
        for kind in menu.split("|"):
            is_asked = kind in kinds if kinds else (kind in _TELLING or "/" not in kind)
            if is_asked:
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
    """So many of the scenario's pairs of faults: the second anywhere after the first, also where only the first has led."""
    firsts = list(faults_of(sites_of(plan)))
    for _ in range(count):
        seconds = list(pairs_with(plan, rng.choice(firsts)))
        if seconds:
            yield rng.choice(seconds)


def pairs_with(plan: Plan, first: Fault, kinds: frozenset[str] | None = None) -> Iterator[Plan]:
    """Every pair that begins with this fault."""
    sites = sites_of(replace(plan, faults=(first,)))
    places = [(site, n) for site, n, _ in sites]
    for second in faults_of(sites[places.index((first.site, first.n)) + 1 :], kinds):
        yield replace(plan, faults=(first, second))
