import json

from longhaul.core import transitions
from longhaul.core.lease import Lease
from longhaul.core.verdict import OutcomeClass
from longhaul.engines.aws_lambda.ends import reference
from tests.cli.conftest import World

GROUP = "/longhaul/jobs"


def began(world: World, job_id: str = "flights", task: str = "t1") -> Lease:
    lease = world.claim(job_id)
    return world.parts.leases.report(
        transitions.register_task(
            lease.id, f"arn:aws:ecs:us-east-1:1:task/Longhaul/{task}", world.clock.now()
        )
    )


def runner_line(lease: Lease, message: str, **more: object) -> str:
    always = {
        "job_id": lease.job_id,
        "attempt": lease.attempt.number,
        "execution": lease.id.execution_name,
    }
    return json.dumps(
        {
            "timestamp": "2026-01-02T03:04:05.678+00:00",
            "level": "INFO",
            "logger": "jobs",
            "message": message,
            **always,
            **more,
        }
    )


def test_frames_of_an_error_stand_below_its_line_and_forge_no_other(world: World) -> None:
    lease = began(world)
    stack = ["flights.py:12 run", "a\n03:04:05.678 INFO    job done"]
    failed = runner_line(lease, "attempt failed: KeyError: 'a'", exit_code=1, stack=stack)
    world.aws.logs.write(GROUP, "job/job/t1", failed, runner_line(lease, "next", stack="none"))
    world.run(
        "logs",
        "flights",
        prints="03:04:05.678 INFO    attempt failed: KeyError: 'a' exit_code=1\n"
        "    flights.py:12 run\n"
        "    a\\n03:04:05.678 INFO    job done\n"
        "03:04:05.678 INFO    next\n",
    )


def test_lines_of_the_runner_are_shortened_and_others_are_unchanged(world: World) -> None:
    lease = began(world)
    world.aws.logs.write(
        GROUP,
        "job/job/t1",
        runner_line(lease, "job done", files=3),
        "WARN Spark says so",
        '"text"',
        "7",
    )
    world.run(
        "logs",
        "flights",
        prints='03:04:05.678 INFO    job done files=3\nWARN Spark says so\n"text"\n7\n',
    )
    records = [
        json.loads(line) for line in world.run("logs", "flights", "--json").stdout.splitlines()
    ]
    assert [record["attempt"] for record in records] == [1, 1, 1, 1]
    assert records[1] == {
        "time": "2026-01-02T03:04:05.000Z",
        "attempt": 1,
        "text": "WARN Spark says so",
    }


def test_of_a_lambda_environments_stream_only_the_attempts_invocation_is_shown(
    world: World,
) -> None:
    lease = world.claim("flights")
    task = reference("arn:aws:lambda:us-east-1:1:function:tiny", "id-2", world.clock.now())
    world.parts.leases.report(transitions.register_task(lease.id, task, world.clock.now()))
    world.aws.logs.write(GROUP, "job/job/t1", "a task's")
    world.run("logs", "flights", code=3, says="has not begun to write")
    world.aws.logs.write(
        GROUP,
        "2026/01/02/tiny[$LATEST]a",
        *("START RequestId: id-1 Version: $LATEST", "another job's", "END RequestId: id-1"),
        *("REPORT RequestId: id-1 Duration: 5 ms", "START RequestId: id-2 Version: $LATEST"),
        *(runner_line(lease, "job done"), "printed"),
        *("END RequestId: id-2", "REPORT RequestId: id-2 Duration: 5 ms"),
        *("START RequestId: id-3 Version: $LATEST", "the next job's"),
    )
    assert world.run("logs", "flights").stdout == "03:04:05.678 INFO    job done\nprinted\n"


def test_an_earlier_attempts_log_is_found_through_the_history(world: World) -> None:
    first = began(world, task="t1")
    world.aws.logs.write(GROUP, "job/job/t1", "JVM chatter", runner_line(first, "attempt one"))
    first = world.parts.leases.load(first.key) or first
    second = world.retry(world.end(first, OutcomeClass.FAILED))
    never = world.retry(world.end(second, OutcomeClass.INTERRUPTED))
    world.parts.leases.report(
        transitions.register_task(
            never.id, "arn:aws:ecs:us-east-1:1:task/Longhaul/t3", world.clock.now()
        )
    )
    world.aws.logs.write(GROUP, "job/job/t3", runner_line(never, "attempt three"))
    assert "attempt one" in world.run("logs", "flights", "--attempt", "1").stdout
    assert "attempt three" in world.run("logs", "flights").stdout
    world.run(
        "logs",
        "flights",
        "--attempt",
        "2",
        code=3,
        says="attempt 2 of job flights never had a task",
    )
    world.run(
        "logs", "flights", "--attempt", "4", code=3, says="attempt 4 of job flights is not known"
    )
    world.run("logs", "flights", "--attempt", "3", "--follow", code=2)


def test_following_waits_for_the_job_and_ends_with_it(world: World) -> None:
    held: list[Lease] = []

    def end() -> None:
        world.aws.logs.write(GROUP, "job/job/t1", "two")
        world.end(held[0], OutcomeClass.SUCCEEDED)

    world.clock.meanwhile.extend(
        [
            lambda: held.append(began(world)),
            lambda: world.aws.logs.write(GROUP, "job/job/t1", "one"),
            end,
            lambda: world.aws.logs.write(GROUP, "job/job/t1", "a little late"),
        ]
    )
    done = world.run("logs", "flights", "--follow", says="waiting for it")
    assert done.stdout == "one\ntwo\na little late\n"
    assert "flights: SUCCEEDED" in done.stderr
