import json
from dataclasses import replace
from datetime import timedelta

import pytest

from longhaul.cli.page.listing import BoardReader
from longhaul.cli.target import Target
from longhaul.core import transitions
from longhaul.core.lease import Owed, State
from longhaul.core.message import Message
from longhaul.core.verdict import OutcomeClass
from longhaul.saved.record import record_ref
from tests.builders import BODY, OUTPUT, QUEUE_URL
from tests.cli.conftest import World
from tests.cli.page.scenes import member_id, member_of, started, three_stages


def ids(output: str) -> list[str]:
    return [line.split("\t")[0] for line in output.splitlines()]


def test_the_list_shows_open_jobs_then_ended_ones_with_the_latest_first(world: World) -> None:
    for n in range(3):
        world.end(world.claim(f"ended-{n}"), OutcomeClass.SUCCEEDED)
        world.clock.advance(60)
    world.claim("first")
    world.clock.advance(1)
    world.claim("second")
    assert ids(world.run("status", says="main: about 0 queued, 2 of 1000 slots in use").stdout) == [
        "first",
        "second",
        "ended-2",
        "ended-1",
        "ended-0",
    ]


def test_a_list_scans_nothing_and_reads_no_more_than_it_shows(world: World) -> None:
    for n in range(250):
        world.end(world.claim(f"ended-{n:03}"), OutcomeClass.SUCCEEDED)
        world.clock.advance(1)
    world.aws.gate.counts.clear()
    done = world.run("status", "--limit", "5")
    assert ids(done.stdout) == [f"ended-{n}" for n in range(249, 244, -1)]
    assert "there are more jobs that are ended: raise --limit" in done.stderr
    counts = {name: n for name, n in world.aws.gate.counts.items() if name.startswith("dynamodb")}
    # Three kinds of open rows, three states of ended ones; one page of rows; the slots.
    assert counts == {"dynamodb.Query": 6, "dynamodb.BatchGetItem": 1, "dynamodb.GetItem": 1}


def test_a_search_finds_jobs_by_their_label_and_tags_and_with_other_filters(world: World) -> None:
    def ended(n: int, kind: OutcomeClass, **tags: str) -> None:
        job = world.claim(f"job-{n}", label=f"2026-10-0{n}", tags={"day": f"0{n}", **tags})
        world.end(job, kind)
        world.clock.advance(1)

    for n in range(1, 7):
        ended(n, OutcomeClass.PERMANENT if n == 3 else OutcomeClass.SUCCEEDED, team="web")
    world.claim("runs", label="2026-10-07", tags={"team": "web"})
    world.claim("nameless")

    def found(*options: str) -> list[str]:
        return ids(world.run("status", *options).stdout)

    assert found("--label", "2026-10-0[237]") == ["runs", "job-3", "job-2"]
    assert found("--label", "2026-10-0[23]", "--state", "dead") == ["job-3"]
    assert found("--tag", "day=04") == ["job-4"]
    assert found("--tag", "team=w*", "--tag", "day=0[45]") == ["job-5", "job-4"]
    assert found("--tag", "team=web", "--limit", "2") == ["runs", "job-6", "job-5"]
    assert found("--tag", "team=") == found("--label", "2027-*") == []
    (line,) = world.run("status", "--label", "2026-10-07").stdout.splitlines()
    assert line.split("\t")[:3] == ["runs", "2026-10-07", "RUNNING"]
    world.run("status", "--tag", "day", code=2, says="--tag 'day': write NAME=VALUE")


def test_what_was_asked_for_is_shown(world: World) -> None:
    job = world.claim("flights", label="7 October", tags={"day": "07"}, sender="AIDAEXAMPLE")
    body = {**BODY, "params": {"month": "2026-10", "days": 3}}
    world.parts.requests.put(job.request_ref, Message(json.dumps(body), {}))

    page = world.run("status", "flights").stdout
    for shown in (
        "7 October",
        "day=07",
        "flights_clean",
        f"flights={BODY['inputs']['flights']}",
        '"month": "2026-10"',
        '"days": 3',
        f"{BODY['output']}, mode overwrite",
        "by AIDAEXAMPLE",
    ):
        assert shown in page, shown

    record = json.loads(world.run("status", "flights", "--json").stdout)
    assert (record["label"], record["tags"]) == ("7 October", {"day": "07"})
    assert (record["job"], record["sender"]) == ("flights_clean", "AIDAEXAMPLE")
    assert record["sent_at"].endswith("Z")
    assert record["request"]["params"] == {"month": "2026-10", "days": 3}
    assert record["request"]["inputs"] == BODY["inputs"]


def test_unclaimed_messages_count_as_queued_whether_held_back_or_not(
    world: World, target: Target
) -> None:
    for n in range(8):
        world.aws.sqs.send_message(
            QueueUrl=QUEUE_URL, MessageBody=f"{{{n}}}", DelaySeconds=60 if n == 0 else 0
        )
    world.claim("runs")
    world.retry(world.end(world.claim("comes-again"), OutcomeClass.FAILED))
    world.end(world.claim("waits-for-a-slot"), OutcomeClass.FAILED)
    # Invisible: messages of running jobs, and those that the dispatcher holds back. Visible: the
    # message of the job that waits for a slot, and those that were never claimed.
    world.aws.sqs.receive_message(QueueUrl=QUEUE_URL, MaxNumberOfMessages=4, VisibilityTimeout=120)
    for filters in ([], ["--state", "dead"], ["--newer-than", "1s"], ["--limit", "1"]):
        world.run("status", *filters, says="main: about 5 queued")
    assert [each.queued for each in BoardReader(target, timedelta(hours=1)).read().stages] == [5], (
        "as on the page"
    )


def test_filters_by_state_and_age(world: World) -> None:
    world.end(world.claim("old"), OutcomeClass.PERMANENT)
    world.clock.advance(7200)
    world.end(world.claim("new"), OutcomeClass.PERMANENT)
    world.end(world.claim("good"), OutcomeClass.SUCCEEDED)
    world.claim("running")
    assert ids(world.run("status", "--state", "dead").stdout) == ["new", "old"]
    assert ids(world.run("status", "--state", "dead", "--newer-than", "1h").stdout) == ["new"]
    assert ids(world.run("status", "--older-than", "1h").stdout) == ["old"]
    assert ids(world.run("status", "--state", "RUNNING", "--state", "succeeded").stdout) == [
        "running",
        "good",
    ]
    world.run("status", "--older-than", "yesterday", code=2, says="not a duration")


def test_an_ended_job_that_owes_something_is_shown_once_with_its_debts(world: World) -> None:
    lease = world.claim("owing")
    dead = replace(
        lease,
        state=State.DEAD,
        settled_attempt=1,
        settled_at=world.clock.now(),
        owed=(Owed.DELETE,),
    )
    world.parts.leases.apply(transitions.settle(lease, dead))
    (line,) = world.run("status").stdout.splitlines()
    assert line.split("\t") == ["owing", "", "DEAD", "main", "1", "0s", "", "still owes: delete"]


def test_the_details_of_a_job_are_shown(world: World) -> None:
    started(world, world.claim("flights"))
    world.clock.advance(3_700)
    done = world.run("status", "flights")
    shown = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert shown["state"] == "RUNNING"
    assert shown["progress"] == "━━━━━╌╌╌╌╌  50% running"
    assert shown["attempt"].startswith("1, begun 1h1m ago")
    assert shown["log"] == "/longhaul/jobs:job/job/task-flights-1"
    record = json.loads(world.run("status", "flights", "--json").stdout)
    assert (record["state"], record["progress"]["fraction"], record["seconds"]) == (
        "RUNNING",
        0.5,
        3700.0,
    )


def test_what_is_stored_for_the_next_attempt_is_shown_while_one_may_come(world: World) -> None:
    lease = world.claim("parts")
    state, ref = (record_ref(lease.id, n) for n in (6, 7))
    world.parts.leases.report(transitions.save(lease.id, None, state, 0, world.clock.now()))
    assert "its state by attempt 1, 0s ago" in world.run("status", "parts").stdout
    row = world.parts.leases.report(
        transitions.save(lease.id, state, ref, 1_500_000, world.clock.now())
    )
    world.clock.advance(60)

    def shown() -> tuple[str | None, list[object]]:
        lines = world.run("status", "parts").stdout.splitlines()
        record = json.loads(world.run("status", "parts", "--json").stdout)
        return (
            dict(line.split(maxsplit=1) for line in lines).get("stored"),
            [record["saved_at"], record["saved_bytes"], record["saved_by"]],
        )

    known = ["2026-01-02T03:04:05.000Z", 1_500_000, 1]
    assert shown() == ("1.5 MB by attempt 1, 1m ago (2026-01-02 03:04:05Z)", known)
    world.end(row)  # dead, and it may be redriven
    assert shown() == ("1.5 MB by attempt 1, 1m ago (2026-01-02 03:04:05Z)", known)
    world.clock.advance(14 * 86_400)
    assert shown() == (None, [None, 0, None])


def test_an_unknown_job_has_its_own_exit_code(world: World) -> None:
    world.run(
        "status",
        "nobody",
        code=3,
        says="nothing is known of job nobody: it may still be queued",
        prints="",
    )


def test_a_job_that_was_refused_before_it_began_says_why(world: World) -> None:
    world.refuse("main#nope", "job: there is no job 'nope'")
    shown = " ".join(world.run("status", "nope").stdout.split())
    assert "state DEAD refused before it began" in shown
    assert "invalid_request: job: there is no job 'nope'" in shown
    world.run("status", "nope", "--history", says="refused before it began")
    world.run("logs", "nope", code=3, says="nope has had no attempt")


def test_watching_a_job_ends_with_its_outcome(world: World) -> None:
    lease = world.claim("watched")
    world.clock.meanwhile.extend(
        [lambda: None, lambda: world.end(lease, OutcomeClass.PERMANENT, "no")]
    )
    world.run("status", "watched", "--watch", code=1, says="watched: DEAD: permanent: no")
    world.run("status", "watched", "--watch", code=1)
    world.end(world.claim("good"), OutcomeClass.SUCCEEDED)
    world.run("status", "good", "--watch")


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("status", "evil"),
        ("status", "evil", "--history"),
        ("status", "evil", "--history", "--json"),
        ("status", "--json"),
        ("status", "evil", "--json"),
    ],
)
def test_the_error_of_a_job_does_not_control_the_terminal(
    world: World, arguments: tuple[str, ...]
) -> None:
    evil = "\x1b]0;owned\x07 \x9b31m \u202egpj.exe \r\n"
    world.end(world.claim("evil"), OutcomeClass.PERMANENT, evil)
    done = world.run(*arguments)
    assert not set("\x1b\x07\x9b\u202e\r") & set(done.output)
    assert "owned" in done.stdout


@pytest.mark.parametrize("option", ["--watch", "--history"])
def test_a_list_has_no_end_and_no_history(world: World, option: str) -> None:
    world.run("status", option, code=2, says="name it")


def test_the_tree_of_a_fan_out_shows_its_members_and_counts_queued_ones(
    world: World,
) -> None:
    three_stages(world)
    clean = world.settings.stages[1]
    row = world.claim("year", opens=("total",))
    root = world.succeed(row, replace(OUTPUT, emitted={"clean": 40}))
    members = [member_id(root, n) for n in range(40)]
    first, second, _ = (
        world.claim(each, of=clean, lineage=member_of(root, n, 40))
        for n, each in enumerate(members[:3])
    )
    world.succeed(first)
    world.end(second, OutcomeClass.PERMANENT, "no such column: month")
    shown = [
        line.split("\t") for line in world.run("status", "year").stdout.splitlines() if "\t" in line
    ]
    assert [(cells[0], cells[2], cells[-1]) for cells in shown] == [
        ("year", "SUCCEEDED", ""),
        (f"├─ {members[0]}", "SUCCEEDED", ""),
        (f"├─ {members[1]}", "DEAD", "permanent: no such column: month"),
        (f"├─ {members[2]}", "RUNNING", ""),
        ("├─ … 37 more", "", "37 QUEUED; waits for its message"),
        ("└─ waits for 39 of 40", "", ""),
    ]
    assert shown[-1][3] == "total"
    # The urgent ones are shown when there is no room for all.
    brief = world.run("status", "year", "--limit", "2").stdout.splitlines()[-4:-1]
    assert [line.split("\t")[0] for line in brief] == [
        f"├─ {members[1]}",
        f"├─ {members[2]}",
        "├─ … 38 more",
    ]
    assert "37 QUEUED, 1 SUCCEEDED; waits for its message" in brief[-1]
    records = [
        json.loads(line) for line in world.run("status", "year", "--json").stdout.splitlines()
    ]
    assert [(each["job_id"], each["parent"], each["root"]) for each in records[:2]] == [
        ("year", None, "year"),
        (members[0], "year", "year"),
    ]
    of_member = dict(
        line.split(maxsplit=1) for line in world.run("status", members[1]).stdout.splitlines()
    )
    assert (of_member["follows"], of_member["state"]) == ("year", "DEAD")


@pytest.mark.parametrize("name", ["2026-10-07", "2026-10-0", "flights-1"])
def test_a_job_is_named_by_its_label_or_by_how_its_id_or_label_begins(
    world: World, name: str
) -> None:
    world.end(world.claim("flights-17", label="2026-10-07"), OutcomeClass.SUCCEEDED)
    world.claim("flights-2")
    done = world.run("status", name, "--json")
    assert json.loads(done.stdout)["job_id"] == "flights-17"


def test_a_beginning_that_several_jobs_have_names_none_of_them(world: World) -> None:
    for name in ("flights-1", "flights-2"):
        world.claim(name)
    world.run(
        "status",
        "flights",
        code=2,
        says="flights means several jobs: flights-1 (main), flights-2 (main)",
    )


# `longhaul status JOB --history`: every attempt, its progress and its end.


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
    world.end(started(world, world.claim("quick"), 0.1), OutcomeClass.SUCCEEDED)
    assert world.run("status", "quick", "--history").stdout.split("\t")[7] == "done"


def test_hand_overs_and_adoptions_are_shown_with_the_beats(world: World) -> None:
    lease = world.claim("long")
    world.parts.leases.report(transitions.hand_over(lease.id, str(lease.receive.receipt_handle)))
    assert world.run("status", "long", "--history").stdout.split("\t")[5] == "0, handed over 1x"


def test_forgotten_attempts_are_counted(world: World) -> None:
    world.claim("old", attempt=60, settled_attempt=59)
    world.run("status", "old", "--history", says="59 earlier attempts are not remembered")
