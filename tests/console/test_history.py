"""`longhaul history`: every attempt, how far it came and why it ended."""

import json
from datetime import timedelta

from longhaul.domain.outcome import OutcomeClass
from tests.console.conftest import World


def test_every_attempt_is_on_a_line_with_its_wait_its_length_and_its_reason(world: World) -> None:
    first = world.claim("flights", first_sent_at=world.clock.now() - timedelta(seconds=42))
    world.parts.leases.register_task(first.id, "arn:aws:ecs:us-east-1:1:task/Longhaul/t1", world.clock.now())
    world.clock.advance(90)
    world.parts.leases.beat(first, world.clock.now(), world.clock.now())
    row = world.parts.leases.report_progress(first.id, {"phase": "running", "fraction": 0.4}, world.clock.now())
    world.clock.advance(30)
    world.retry(world.end(row, OutcomeClass.OUT_OF_MEMORY, "Java heap space"))
    world.clock.advance(7)

    done = world.run("history", "flights")
    assert done.exit_code == 0
    assert [line.split("\t") for line in done.stdout.splitlines()] == [
        ["1", "out_of_memory", "2026-01-02 03:04:05Z", "42s", "2m", "1", "small", "running 40%", "Java heap space"],
        ["2", "RUNNING", "2026-01-02 03:16:05Z", "10m", "7s", "0", "medium", "starting", ""],
    ]
    assert "flights: RUNNING; waited 642 s and ran 127 s in all" in done.stderr

    records = [json.loads(line) for line in world.run("history", "flights", "--json").stdout.splitlines()]
    assert [(each["attempt"], each["class"], each["seconds"]) for each in records] == [
        (1, "out_of_memory", 120.0),
        (2, None, 7.0),
    ]
    assert records[0]["log_stream"] == "job/job/t1"
    assert records[0]["execution_arn"].endswith(f":{first.id.execution_name}")
    assert [(each["beats"], each["beat_times"]) for each in records] == [(1, ["2026-01-02T03:05:35.000Z"]), (0, [])]
    assert (records[0]["started_at"], records[1]["started_at"]) == ("2026-01-02T03:04:05.000Z", None)


def test_an_attempt_that_succeeded_got_to_the_end_whatever_it_reported_last(world: World) -> None:
    lease = world.claim("quick")
    world.parts.leases.register_task(lease.id, "arn:aws:ecs:us-east-1:1:task/Longhaul/t1", world.clock.now())
    row = world.parts.leases.report_progress(lease.id, {"phase": "running", "fraction": 0.1}, world.clock.now())
    world.end(row, OutcomeClass.SUCCEEDED)
    assert world.run("history", "quick").stdout.split("\t")[7] == "done"


def test_what_happens_between_beats_stands_with_them(world: World) -> None:
    lease = world.claim("long")
    world.parts.leases.hand_over(lease.id, str(lease.receipt_handle))
    assert world.run("history", "long").stdout.split("\t")[5] == "0, handed over 1x"


def test_a_job_that_was_cancelled_before_it_began_had_no_attempt(world: World) -> None:
    world.run("cancel", "flights")
    done = world.run("history", "flights")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "cancelled before it began: it had no attempt" in done.stderr


def test_what_is_not_remembered_is_said(world: World) -> None:
    world.claim("old", attempt=60, settled_attempt=59)
    assert "59 earlier attempts are not remembered" in world.run("history", "old").stderr


def test_an_unknown_job_has_no_history(world: World) -> None:
    assert world.run("history", "nobody").exit_code == 3


def test_what_an_attempt_died_of_does_not_reach_the_terminal_raw(world: World) -> None:
    evil = "\x1b]0;owned\x07 \x9b31m \u202egpj.exe \r\n"
    world.end(world.claim("evil"), OutcomeClass.PERMANENT, evil)
    for arguments in (("history", "evil"), ("history", "evil", "--json")):
        done = world.run(*arguments)
        assert done.exit_code == 0
        assert not set("\x1b\x07\x9b\u202e\r") & set(done.output)
