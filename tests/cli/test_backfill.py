import json
from collections.abc import Callable

import pytest
from botocore.exceptions import ClientError

from longhaul.core.lease import Lease
from longhaul.core.request import read_request
from longhaul.core.verdict import OutcomeClass
from tests.builders import BUCKET, stage
from tests.cli.conftest import World

COMMAND = (
    *("backfill", "--job", "flights_clean", "--name", "oct"),
    *("--input", f"flights=s3://{BUCKET}/raw/{{day}}.csv"),
    *("--output", f"s3://{BUCKET}/clean/{{day}}/"),
)
THREE = ("--over", "day=2026-10-01..2026-10-03")


def fingerprint(day: int) -> str:
    return read_request(
        json.dumps(
            {
                "job": "flights_clean",
                "inputs": {"flights": f"s3://{BUCKET}/raw/2026-10-0{day}.csv"},
                "output": f"s3://{BUCKET}/clean/2026-10-0{day}/",
            }
        )
    ).fingerprint()


def claim(world: World, day: int) -> Lease:
    return world.claim(f"oct/2026-10-0{day}", fingerprint=fingerprint(day))


def succeed(world: World, day: int, row: Lease | None = None) -> None:
    world.succeed(row or claim(world, day))


def sent(world: World) -> list[str]:
    return [json.loads(each["Body"])["label"] for each in world.queued()]


def test_a_dry_run_shows_what_would_be_sent_and_sends_nothing(world: World) -> None:
    succeed(world, 1)
    claim(world, 2)
    assert world.run(
        *COMMAND,
        *THREE,
        "--dry-run",
        says="1 to be sent (0 of them again), 1 under way, 1 have succeeded",
    ).stdout.splitlines() == [
        f"oct/2026-10-01\tskip\tSUCCEEDED\t2026-10-01\ts3://{BUCKET}/clean/2026-10-01/",
        f"oct/2026-10-02\twait\tRUNNING\t2026-10-02\ts3://{BUCKET}/clean/2026-10-02/",
        f"oct/2026-10-03\tsend\t\t2026-10-03\ts3://{BUCKET}/clean/2026-10-03/",
    ]
    records = [
        json.loads(line)
        for line in world.run(*COMMAND, *THREE, "--dry-run", "--json").stdout.splitlines()
    ]
    assert records[2]["request"]["tags"] == {"backfill": "oct", "day": "2026-10-03"}
    assert world.queued() == []


def test_no_more_jobs_are_open_at_a_time_than_it_has_slots(world: World) -> None:
    seen: list[list[str]] = []

    def ends(day: int) -> Callable[[], None]:
        def end() -> None:
            seen.append(sent(world))
            succeed(world, day)

        return end

    world.clock.meanwhile.extend([ends(1), ends(2), ends(3)])
    done = world.run(*COMMAND, *THREE, "--slots", "1")
    assert seen == [["2026-10-01"], ["2026-10-02"], ["2026-10-03"]]
    assert "3 of 3 succeeded" in done.stderr


def test_it_says_what_failed_and_runs_that_again_when_it_is_started_again(world: World) -> None:
    def end() -> None:
        succeed(world, 1)
        world.end(claim(world, 2), why="no such column: x")
        succeed(world, 3)

    world.clock.meanwhile.append(end)
    world.run(*COMMAND, *THREE, code=1, says="oct/2026-10-02: DEAD: permanent: no such column: x")
    assert len(world.queued()) == 3
    again = world.run(*COMMAND, *THREE, "--dry-run")
    assert "1 to be sent (1 of them again), 0 under way, 2 have succeeded" in again.stderr


def test_after_an_interrupt_it_goes_on_where_it_was(world: World) -> None:
    world.interrupt()
    world.run(
        *COMMAND,
        *THREE,
        "--slots",
        "1",
        code=130,
        says="what was sent goes on (`longhaul status oct`), and the same",
    )
    assert sent(world) == ["2026-10-01"]
    running = claim(world, 1)

    def first() -> None:
        assert sent(world) == ["2026-10-02"]
        succeed(world, 1, running)

    def others() -> None:
        succeed(world, 2)
        succeed(world, 3)

    world.clock.meanwhile.extend([first, others])
    world.run(*COMMAND, *THREE, "--slots", "2")
    assert world.run(*COMMAND, *THREE).stderr.endswith("0 under way, 3 have succeeded\n")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--size", "huge"), "size"),
        (("--over", "day=@missing.txt"), "missing.txt"),
        (("--param", "x"), "write NAME=VALUE"),
    ],
)
def test_nothing_is_sent_where_one_request_can_never_run(
    world: World, more: tuple[str, ...], why: str
) -> None:
    world.run(*COMMAND, *THREE, *more, code=2, says=why)
    assert world.queued() == []


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (f"s3://{BUCKET}/one/{{dya}}/", "{dya}: the value is {day}"),
        (f"s3://{BUCKET}/one/{{day:%Q}}/", "{day:%Q}: a part of a time has codes"),
        (f"s3://{BUCKET}/one/{{day:%Y}}/", "is where 2026-10-01 writes too"),
    ],
)
def test_values_that_would_replace_each_others_output_are_refused(
    world: World, output: str, why: str
) -> None:
    command = (*COMMAND[:-2], *THREE, "--output", output)
    world.run(*command, code=2, says=why)
    assert world.queued() == []
    code = 0 if "%Y" in output else 2
    world.run(*command, "--mode", "append", "--dry-run", code=code)


def test_without_a_stage_it_goes_to_none_that_does_not_expect_its_job(world: World) -> None:
    """It went to the first stage, and so through the whole pipeline."""
    stages = (stage(job="parse", next=("clean",)), stage(name="clean", job="flights_clean"))
    world.redeploy(stages=stages)
    world.run(
        *COMMAND, *THREE, "--dry-run", code=2, says="name the stage (--stage, or stage=…): clean"
    )
    world.run(*COMMAND, *THREE, "--dry-run", "--stage", "clean")


def test_an_id_of_other_work_is_a_conflict(world: World) -> None:
    world.end(world.claim("oct/2026-10-01"), OutcomeClass.SUCCEEDED)
    world.run(*COMMAND, *THREE, code=2, says="belongs to a different request")


def interrupted(world: World, slots: int) -> None:
    world.interrupt()
    world.run(*COMMAND, *THREE, "--slots", str(slots), code=130)


def test_its_name_stands_for_all_jobs_that_it_has_sent(world: World) -> None:
    interrupted(world, slots=2)
    world.end(claim(world, 1), why="no such column: x")

    shown = world.run("status", "oct", says="1 more were still to be sent: start its command again")
    assert shown.stdout.splitlines()[0] == "main 0 of 2 (1 DEAD)"
    assert "oct/2026-10-01" in shown.stdout
    records = map(json.loads, world.run("status", "oct", "--json").stdout.splitlines())
    assert [(each["job_id"], each["state"]) for each in records] == [
        ("oct/2026-10-01", "DEAD"),
        ("oct/2026-10-02", "QUEUED"),
    ]

    cancelled = world.run("cancel", "oct")
    assert cancelled.stdout.count("\n") == 1
    assert cancelled.stdout.startswith("oct/2026-10-02: ")
    world.queued()
    assert world.run("rerun", "oct").stdout == "oct/2026-10-01\n"
    assert len(world.queued()) == 1


@pytest.mark.parametrize(
    ("outcome", "code", "said"),
    [
        (
            OutcomeClass.PERMANENT,
            1,
            "has ended before: DEAD; a rerun that is queued ends when its message comes",
        ),
        (OutcomeClass.CANCELLED, 0, "cancelled"),
    ],
)
def test_a_cancel_of_one_that_has_ended_says_what_became_of_it(
    world: World, outcome: OutcomeClass, code: int, said: str
) -> None:
    """It said nothing, and failed, also where it had been cancelled."""

    def end() -> None:
        succeed(world, 1)
        world.end(claim(world, 2), outcome)

    world.clock.meanwhile.append(end)
    world.run(*COMMAND, "--over", "day=2026-10-01..2026-10-02", code=1)
    first, second = world.run("cancel", "oct", code=code).stdout.splitlines()
    assert second == f"oct/2026-10-02: {said}"
    assert first.startswith("oct/2026-10-01: has ended before: SUCCEEDED; a rerun that is queued")


def test_the_name_of_a_job_is_none_for_a_backfill(world: World) -> None:
    """`status`, `cancel` and `rerun` of that name would be about the job."""
    world.end(world.claim("oct"))
    world.run(*COMMAND, *THREE, "--dry-run", code=2, says="--name: oct is the id of a job")


def test_a_name_has_room_for_as_many_values_as_its_item(world: World) -> None:
    """DynamoDB refused the write that notes them, in the middle of the sending."""
    now, values = world.clock.now(), [f"{'x' * 27}{n:05}" for n in range(11_500)]
    world.parts.backfills.note_sent("main#oct", values, now)
    hours = [f"{n:05}-2026-10T00" for n in range(3_000)]
    with pytest.raises(ClientError, match="size"):
        world.parts.backfills.note_sent("main#oct", hours, now)
    quarter = ("--over", "day=2026-10-01T00..2026-12-31T00")
    world.run(*COMMAND, *quarter, "--dry-run", code=2, says="give these another --name")
    world.run(*COMMAND, *THREE, "--dry-run")
