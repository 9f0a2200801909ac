"""`longhaul status JOB --history`: every attempt, its progress and its end."""

import json
from datetime import timedelta

from longhaul.core import transitions
from longhaul.core.verdict import OutcomeClass
from longhaul.saved.record import record_ref
from tests.cli.conftest import World


def test_every_attempt_has_a_line_with_its_wait_duration_and_reason(world: World) -> None:
    first = world.claim("flights", first_sent_at=world.clock.now() - timedelta(seconds=42))
    world.parts.leases.report(
        transitions.register_task(
            first.id, "arn:aws:ecs:us-east-1:1:task/Longhaul/t1", world.clock.now()
        )
    )
    world.clock.advance(90)
    world.parts.leases.report(transitions.beat(first, world.clock.now(), world.clock.now()))
    row = world.parts.leases.report(
        transitions.report_progress(
            first.id, {"phase": "running", "fraction": 0.4}, world.clock.now()
        )
    )
    world.clock.advance(30)
    world.retry(world.end(row, OutcomeClass.OUT_OF_MEMORY, "Java heap space"))
    world.clock.advance(7)

    assert [
        line.split("\t")
        for line in world.run(
            "status",
            "flights",
            "--history",
            says="flights: RUNNING; waited 642 s and ran 127 s in all",
        ).stdout.splitlines()
    ] == [
        [
            "1",
            "out_of_memory",
            "2026-01-02 03:04:05Z",
            "42s",
            "2m",
            "1",
            "small",
            "running 40%",
            "Java heap space",
        ],
        ["2", "RUNNING", "2026-01-02 03:16:05Z", "10m", "7s", "0", "medium", "starting", ""],
    ]

    records = [
        json.loads(line)
        for line in world.run("status", "flights", "--history", "--json").stdout.splitlines()
    ]
    assert [(each["attempt"], each["class"], each["seconds"]) for each in records] == [
        (1, "out_of_memory", 120.0),
        (2, None, 7.0),
    ]
    assert records[0]["log_stream"] == "job/job/t1"
    assert records[0]["execution_arn"].endswith(f":{first.id.execution_name}")
    assert [(each["beats"], each["beat_times"]) for each in records] == [
        (1, ["2026-01-02T03:05:35.000Z"]),
        (0, []),
    ]
    assert (records[0]["started_at"], records[1]["started_at"]) == (
        "2026-01-02T03:04:05.000Z",
        None,
    )


def test_a_successful_attempt_is_done_whatever_it_reported_last(world: World) -> None:
    lease = world.claim("quick")
    world.parts.leases.report(
        transitions.register_task(
            lease.id, "arn:aws:ecs:us-east-1:1:task/Longhaul/t1", world.clock.now()
        )
    )
    row = world.parts.leases.report(
        transitions.report_progress(
            lease.id, {"phase": "running", "fraction": 0.1}, world.clock.now()
        )
    )
    world.end(row, OutcomeClass.SUCCEEDED)
    assert world.run("status", "quick", "--history").stdout.split("\t")[7] == "done"


def test_what_an_attempt_went_on_from_is_shown(world: World) -> None:
    lease = world.claim("parts")
    ref = record_ref(lease.id, 1)
    world.parts.leases.report(
        transitions.register_task(lease.id, "arn:aws:ecs:x:1:task/Longhaul/t1", world.clock.now())
    )
    row = world.parts.leases.report(
        transitions.save(lease.id, None, ref, 1_500_000, world.clock.now())
    )
    second = world.retry(world.end(row, OutcomeClass.INTERRUPTED))
    assert second.attempt.resumes == ref
    for said in ("3 parts, 1 checkpoint", "nothing: input 'trips' has changed since"):
        world.parts.leases.report(
            transitions.report_progress(
                second.id, {"phase": "running", "taken_over": said}, world.clock.now()
            )
        )
        _, line = world.run("status", "parts", "--history").stdout.splitlines()
        assert line.split("\t")[7] == f"starting, took over {said}"
    first, _ = map(
        json.loads, world.run("status", "parts", "--history", "--json").stdout.splitlines()
    )
    assert first["saved_at"] == "2026-01-02T03:04:05.000Z"


def test_hand_overs_and_adoptions_are_shown_with_the_beats(world: World) -> None:
    lease = world.claim("long")
    world.parts.leases.report(transitions.hand_over(lease.id, str(lease.receive.receipt_handle)))
    assert world.run("status", "long", "--history").stdout.split("\t")[5] == "0, handed over 1x"


def test_forgotten_attempts_are_counted(world: World) -> None:
    world.claim("old", attempt=60, settled_attempt=59)
    world.run("status", "old", "--history", says="59 earlier attempts are not remembered")
