"""Worlds to show on the page."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from longhaul.core import beat, transitions
from longhaul.core.descent import Group, Lineage, child_id
from longhaul.core.lease import CommittedOutput, Lease, State
from longhaul.core.verdict import OutcomeClass
from longhaul.engines.fargate.ends import FARGATE
from longhaul.operations.cancel import Canceller
from longhaul.pipelines.follow_ons import place_behind
from tests.builders import OUTPUT, stage
from tests.cli.conftest import World

EVIL = (
    "</script><script>alert(1)</script>\" onload='x' <img src=x onerror=alert(2)> "
    "\u202egpj.exe \x1b]0;owned\x07 &amp;{{7*7}}"
)
"""Hostile text, which an error, a log line or a parameter may hold."""


def started(
    world: World, lease: Lease, fraction: float | None = 0.5, phase: str = "running"
) -> Lease:
    """Let its task register, report and write a log."""
    task = f"task-{lease.job_id.replace('/', '-')}-{lease.attempt.number}"
    now = world.clock.now()
    world.parts.leases.report(
        transitions.register_task(
            lease.id, f"arn:aws:ecs:us-east-1:123456789012:task/Longhaul/{task}", now
        )
    )
    progress = {"phase": phase} | ({} if fraction is None else {"fraction": fraction})
    after = world.parts.leases.report(transitions.report_progress(lease.id, progress, now))
    line = (
        f'{{"timestamp": "{now.isoformat()}", "level": "INFO", "message": "reading", '
        '"job_id": "x", "rows": 7}'
    )
    world.aws.logs.write(
        world.settings.job_log_group,
        f"{FARGATE.log_prefix}{task}",
        line,
        f"plain line of {lease.job_id}",
    )
    return after


def works(world: World, lease: Lease, seconds: float) -> Lease:
    """Advance the clock, with the beats of the beat."""
    until, leases = world.clock.now() + timedelta(seconds=seconds), world.parts.leases
    while True:
        age_s = (world.clock.now() - lease.attempt.claimed_at).total_seconds()
        wait_s = beat.interval_s(age_s, world.settings.lease)
        if world.clock.now() + timedelta(seconds=wait_s) >= until:
            break
        world.clock.advance(wait_s)
        now = world.clock.now()
        lease = leases.report(transitions.beat(lease, now, now + timedelta(seconds=wait_s + 60)))
    world.clock.advance((until - world.clock.now()).total_seconds())
    return lease


def succeeded(world: World, job_id: str, seconds: float) -> Lease:
    row = started(world, world.claim(job_id), 1.0)
    works(world, row, seconds)
    return world.succeed(row, CommittedOutput(row.attempt.number, 12, 3_400_000))


def dead(world: World, job_id: str, why: str, seconds: float = 60) -> Lease:
    row = started(world, world.claim(job_id), 0.3)
    row = works(world, row, seconds)
    world.bury(job_id, "permanent", why)
    return world.end(row, OutcomeClass.PERMANENT, why)


def child_of(job_id: str, n: int) -> Lineage:
    """The lineage of one of two jobs that a job of the stage `main` emitted."""
    key = f"main#{job_id}"
    return Lineage(root=key, parent=key, groups=(Group(of=key, run=1, n=n, size=2),))


def three_stages(world: World) -> None:
    """Deploy a pipeline: `main` emits for `clean`, and `total` joins."""
    main = world.settings.stages[0].model_copy(update={"next": ("clean",)})
    # Letters of `main` are not theirs.
    others = world.aws.sqs.create_queue(QueueName="others-dead", Attributes={})["QueueUrl"]
    stages = (
        main,
        stage(name="clean", next=("total",), slots=1000, dead_letter_queue_url=others),
        stage(name="total", join=True, opener="main", dead_letter_queue_url=others),
    )
    world.redeploy(stages=stages)


def member_id(root: Lease, n: int) -> str:
    return child_id(root.key, "clean", root.key, n)


def member_of(root: Lease, n: int, size: int) -> Lineage:
    groups = (place_behind(root, n, size),)
    return Lineage(root=root.key, parent=root.key, run=root.run, groups=groups)


def tree(
    world: World, jobs: int, begun: int, label: str | None = None, name: str = "year"
) -> Lease:
    """A root that emitted `jobs`, of which `begun` have a row: every 7th died, every 5th runs."""
    row = world.claim(name, opens=("total",), label=label)
    root = world.succeed(row, replace(OUTPUT, emitted={"clean": jobs}))
    for n in range(begun):
        of, lineage = world.settings.stages[1], member_of(root, n, jobs)
        member = world.claim(member_id(root, n), of, lineage=lineage, label=label)
        if n % 7 == 3:
            world.end(member, OutcomeClass.PERMANENT, EVIL)
        elif n % 5 != 4:
            world.succeed(member)
    return root


def busy(world: World) -> None:
    """Jobs in every state."""
    for n in range(6):
        succeeded(world, f"flights-2013-{n + 1:02}", 40 + 30 * n)
        world.clock.advance(7)
    dead(world, "flights-2012-13", "missing input: s3://longhaul-data/raw/2012-13.csv")
    first = started(
        world,
        world.claim("delays-hourly", first_sent_at=world.clock.now() - timedelta(seconds=80)),
        0.4,
    )
    first = works(world, first, 90)
    again = started(
        world, world.retry(world.end(first, OutcomeClass.OUT_OF_MEMORY, "Java heap space")), 0.7
    )
    started(world, world.claim("year/main/a1", lineage=child_of("year", 0)), 0.42)
    started(world, world.claim("year/main/b2", lineage=child_of("year", 1)), None, "staging")
    world.claim("year")
    interrupted = started(world, world.claim("weather-joined"), 0.1)
    world.clock.advance(30)
    world.end(
        interrupted, OutcomeClass.INTERRUPTED, "SpotInterruption: your Spot task was interrupted"
    )
    world.claim("flights-2013-09")
    Canceller(world.parts.leases, world.parts.finisher).cancel("main", "year/main/b2")
    works(world, again, 20)
    for n in range(37 + 6):  # six have begun, and have a message each
        world.aws.sqs.send_message(
            QueueUrl=world.settings.stages[0].queue_url, MessageBody=f"{{{n}}}"
        )


def multitude(world: World, jobs: int, state: State = State.SUCCEEDED) -> None:
    """Jobs of one state, a second apart, as copies of one: `job-00000` began or ended first.

    Every tenth has the label `tenth`, every seventh the tag `team=web`.
    """
    first = world.claim("job-00000")
    if state is not State.RUNNING:
        world.end(first, ENDS[state], "no such column")
    table = world.aws.dynamodb.tables[world.settings.leases_table]
    items = {key[1]: row.item for key, row in table.rows.items() if key[0] == first.key}
    since, now = world.clock.now(), world.clock.now().timestamp()
    for n in range(jobs):
        key = f"main#job-{n:05}"
        at = {"N": str(round((since + timedelta(seconds=n)).timestamp() * 1000))}
        for name, item in items.items():
            assert item is not None
            copy = {**item, "key": {"S": key}}
            if name == "lease":
                copy |= {"settled_at": at} if "settled_at" in item else {"run": at}
                copy |= {"label": {"S": "tenth"}} if n % 10 == 0 else {}
                copy |= {"tags": {"S": '{"team":"web"}'}} if n % 7 == 0 else {}
            table.write((key, name), copy, now, 0.0, 1000)
    world.clock.advance(jobs)


ENDS = {
    State.SUCCEEDED: OutcomeClass.SUCCEEDED,
    State.DEAD: OutcomeClass.PERMANENT,
    State.CANCELLED: OutcomeClass.CANCELLED,
    State.RELEASED: OutcomeClass.FAILED,
}
"""How a job comes to be in each state."""


def backfill(world: World, days: int, begun: int, left: int = 0) -> None:
    """A backfill `oct` that has sent `days`: of those that began every 4th died, the last runs."""
    values = [f"2026-10-{n + 1:02}" for n in range(days)]
    now = world.clock.now()
    if left:
        world.parts.backfills.note_begun("main#oct", [f"{n:02}" for n in range(left)], now, now)
    world.parts.backfills.note_sent("main#oct", values, now)
    for n, value in enumerate(values[:begun]):
        tags = {"backfill": "oct", "day": value}
        row = world.claim(f"oct/{value}", label=value, tags=tags)
        if n + 1 == begun:
            continue
        if n % 4 == 3:
            world.end(row, OutcomeClass.PERMANENT, EVIL)
        else:
            world.succeed(row)


def hourly(world: World, hours: int, parts: int) -> None:
    """A pipeline of `three_stages` in each hour: in the sixth of 13 a job died, the last one runs.

    Its members are claimed one after the other.
    """
    main, clean, total = world.settings.stages
    for n in range(hours):
        begun = world.clock.now()
        hour = f"{begun:%Y-%m-%dT%H}"
        given: dict[str, Any] = {"label": hour, "first_sent_at": begun}
        row = started(world, world.claim(f"flights/{hour}", main, opens=("total",), **given), 1.0)
        output = replace(OUTPUT, emitted={"clean": parts})
        root = world.succeed(works(world, row, 300), output)
        of = Lineage(root=root.key, parent=root.key, run=root.run)
        dies, runs = n % 13 == 5, n + 1 == hours
        for part in range(parts):
            lineage = member_of(root, part, parts)
            given |= {"first_sent_at": world.clock.now(), "lineage": lineage}
            row = started(world, world.claim(member_id(root, part), clean, **given), 0.2 * part)
            world.clock.advance(400 + 70 * part)
            if dies and part == 1:
                world.end(row, OutcomeClass.PERMANENT, "no such column: dep_delay")
            elif not runs or part == 0:
                world.succeed(row)
        if runs:
            return
        if not dies:
            given |= {"first_sent_at": world.clock.now(), "lineage": of}
            join = child_id(root.key, "total", root.key, "join")
            world.succeed(works(world, started(world, world.claim(join, total, **given)), 300))
        world.clock.advance(3600 - (world.clock.now() - begun).total_seconds() % 3600)
