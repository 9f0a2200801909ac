import json
from typing import Any

import pytest

from longhaul.core.message import EXPLANATION, Message, text, value_of
from longhaul.operations.letter import explanation_of
from simulation.aws.service import Call, Proceed
from simulation.aws.sqs.client import EntryFault
from tests.builders import DEAD_LETTER_QUEUE_URL
from tests.cli.conftest import World


def test_the_list_shows_each_letter_once_with_its_reason_and_leaves_it_visible(
    world: World,
) -> None:
    ids = [world.bury(f"job-{n}", why=f"reason {n}") for n in range(25)]
    done = world.run("dlq", "list")
    assert sorted(line.split("\t")[0] for line in done.stdout.splitlines()) == sorted(ids)
    assert "\tjob-24\t\tmain\tfailed\t0s\t3\treason 24\n" in done.stdout
    assert world.dead() == ids
    few = world.run("dlq", "list", "--limit", "3", says="there are more")
    assert len(few.stdout.splitlines()) == 3
    assert world.dead() == ids


def test_letters_are_selected_by_class_age_job_and_message(world: World) -> None:
    world.bury("old", kind="failed")
    world.clock.advance(7200)
    new = world.bury("new", kind="failed")
    world.bury("stalled", kind="stalled")
    jobs = {
        ("--class", "failed"): {"old", "new"},
        ("--class", "failed", "--class", "stalled"): {"old", "new", "stalled"},
        ("--older-than", "1h"): {"old"},
        ("--newer-than", "1h", "--class", "failed"): {"new"},
        ("stalled", "old"): {"stalled", "old"},
        (new[:8],): {"new"},
        ("nobody",): set(),
    }
    for arguments, expected in jobs.items():
        listed = world.run("dlq", "list", *arguments, code=0 if expected else 3).stdout
        assert {line.split("\t")[1] for line in listed.splitlines()} == expected, arguments


@pytest.mark.parametrize(
    "command",
    [("dlq", "list"), ("rerun", "--yes"), ("dlq", "drop", "--yes"), ("dlq", "drop", "--dry-run")],
)
def test_a_name_without_a_letter_exits_3_and_an_unknown_class_2(
    world: World, command: tuple[str, ...]
) -> None:
    world.bury("there", kind="failed", label="2026-10-07")
    world.run(*command, "--class", "faild", code=2, says="no class faild: there are")
    world.run(*command, "--class", "stalled")
    known = "nothing is known of job" if command[0] == "rerun" else "no dead letter of job or mess"
    missing = world.run(*command, "2026-10-07", "nobody", code=3, says=known)
    assert "2026-10-07" not in missing.stderr
    assert len(world.dead()) == 1


def test_a_letter_without_an_explanation_is_listed_too(world: World) -> None:
    world.aws.sqs.send_message(QueueUrl=DEAD_LETTER_QUEUE_URL, MessageBody="whatever")
    (line,) = world.run("dlq", "list").stdout.splitlines()
    assert (line.split("\t")[4], "no reason attached" in line) == ("unexplained", True)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("", None),
        ("[]", None),
        ('{"class": 7}', None),
        ("[" * 99_999, None),
        ('{"class": "x", "attempts": "7", "key": 1}', "x"),
    ],
)
def test_an_invalid_explanation_is_ignored(said: str, kind: str | None) -> None:
    found = explanation_of(Message("", {EXPLANATION: text(said)}))
    assert (found and found.kind) == kind
    assert found is None or (found.attempts, found.key) == (0, None)


def test_a_whole_letter_is_shown(world: World) -> None:
    world.bury("evil", why="\x1b[2Jgone\n")
    done = world.run("dlq", "show", "evil")
    assert "\x1b" not in done.output
    shown = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line)
    assert shown["reason"] == "\\x1b[2Jgone\\n"
    assert '"of": "evil"' in done.stdout
    record = json.loads(world.run("dlq", "show", "evil", "--json").stdout)
    assert (record["class"], json.loads(record["body"])["params"]) == ("failed", {"of": "evil"})
    world.run("dlq", "show", "nobody", code=3)
    assert len(world.dead()) == 1


def test_a_rerun_of_a_letter_sends_body_and_attributes_back_as_the_producer_sent_them(
    world: World,
) -> None:
    binary = {"dataType": "Binary", "binaryValue": "AAH/"}
    theirs: dict[str, Any] = {"bin": binary, **{f"a{n}": text(str(n)) for n in range(5)}}
    world.bury("job", **theirs)
    assert world.run("rerun", "job", "--yes").stdout == "job\n"
    assert world.dead() == []
    (message,) = world.queued()
    assert json.loads(message["Body"])["params"] == {"of": "job"}
    sent = message["MessageAttributes"]
    assert sent.keys() == {"job_id", *theirs}
    assert (sent["job_id"]["StringValue"], sent["bin"]["BinaryValue"]) == ("job", b"\0\1\xff")


def test_a_dry_run_counts_the_letters_and_changes_nothing(world: World) -> None:
    world.bury("a")
    world.bury("b", kind="stalled")
    for command in (("rerun", "--dead"), ("dlq", "drop", "--all")):
        world.run(
            *command,
            "--dry-run",
            says="main: 1 dead letter: failed\nmain: 1 dead letter: stalled\n",
            prints="",
        )
    assert (len(world.dead()), world.queued()) == (2, [])


def test_a_selection_and_a_yes_are_required(world: World) -> None:
    world.bury("a")
    world.run("dlq", "drop", "--yes", code=2, says="say which")
    world.run("dlq", "drop", "--all", "--class", "failed", "--yes", code=2, says="--all means all")
    world.run("dlq", "drop", "--all", code=2, says="give --yes")
    assert len(world.dead()) == 1


def test_a_no_to_the_question_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhaul.cli.terminal.output.is_interactive", lambda: True)
    world.bury("a")
    no = world.run("dlq", "drop", "--all", input="n\n", code=1, says="nothing was done")
    assert len(world.dead()) == 1
    assert "drop 1 dead letter?" in no.stderr
    world.run("dlq", "drop", "--all", input="", code=130)  # Ctrl-D ends it like Ctrl-C
    assert len(world.dead()) == 1
    world.run("dlq", "drop", "--all", input="y\n")
    assert world.dead() == []


@pytest.mark.parametrize(
    "operation", ["ReceiveMessage", "SendMessageBatch", "DeleteMessage", "GetQueueAttributes"]
)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_interrupt_anywhere_in_a_rerun_of_letters_loses_no_letter(
    world: World, operation: str, *, after: bool
) -> None:
    jobs = {f"job-{n}" for n in range(15)}
    for job in jobs:
        world.bury(job)
    calls = 0

    def around(call: Call, proceed: Proceed) -> dict[str, Any]:
        nonlocal calls
        calls += call.operation == operation
        if call.operation == operation and calls == 2:
            if after:
                proceed()
            raise KeyboardInterrupt
        return proceed()

    world.aws.gate.around = around
    world.run("rerun", "--dead", "--yes", code=130)
    world.aws.gate.around = None
    world.clock.advance(600)  # a received letter whose handle was lost shows again
    left = [
        value_of({"job_id": {"stringValue": message.attributes["job_id"]["StringValue"]}}, "job_id")
        for message in world.aws.sqs.queues[DEAD_LETTER_QUEUE_URL].messages.values()
    ]
    back = [message["MessageAttributes"]["job_id"]["StringValue"] for message in world.queued()]
    assert {*left, *back} == jobs
    assert len(back) == len(set(back))


def test_a_letter_that_cannot_be_sent_stays_and_is_named(world: World) -> None:
    world.bury("good")
    bad = world.bury("bad")
    world.aws.sqs.entry_fault = lambda _, entry: (
        EntryFault("InvalidParameterValue", "too large", sender_fault=True)
        if '"bad"' in entry.get("MessageBody", "")
        else None
    )
    world.run(
        "rerun",
        "--dead",
        "--yes",
        code=1,
        says="bad: not done: InvalidParameterValue: too large",
        prints="good\n",
    )
    assert world.dead() == [bad]


def test_dropped_letters_are_gone_and_printed(world: World) -> None:
    ids = [world.bury("a", label="last night"), world.bury("b")]
    done = world.run("dlq", "drop", "a", "--yes", "--json")
    assert json.loads(done.stdout) == {
        "message_id": ids[0],
        "job_id": "a",
        "label": "last night",
        "class": "failed",
    }
    assert world.dead() == [ids[1]]


def test_a_letter_whose_body_is_no_request_stays(world: World) -> None:
    world.aws.sqs.send_message(QueueUrl=DEAD_LETTER_QUEUE_URL, MessageBody="no request")
    world.bury("good")
    world.run(
        "rerun",
        "--dead",
        "--yes",
        code=1,
        says="its body is no valid request, which cannot run: `longhaul dlq drop`",
        prints="good\n",
    )
    assert (len(world.dead()), len(world.queued())) == (1, 1)


def test_a_job_runs_again_from_its_row_and_its_letter_by_its_own_id(world: World) -> None:
    world.end(world.claim("day-7"))
    letter = world.bury("day-7")
    world.run("rerun", "day-7", "--size", "large", says="dead letters stay in the queue")
    assert world.dead() == [letter]
    assert world.run("rerun", letter[:8], "--yes").stdout == "day-7\n"
    assert (world.dead(), len(world.queued())) == ([], 2)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 2),
        (("job", "--class", "failed"), 2),
        (("--dead", "--size", "large"), 2),
        (("--class", "failed", "--tree"), 2),
        (("job", "--size", "large"), 3),  # nothing but its letter is known
    ],
)
def test_a_rerun_is_of_jobs_that_are_named_or_of_letters_as_they_were_sent(
    world: World, arguments: tuple[str, ...], code: int
) -> None:
    world.bury("job")
    world.run("rerun", *arguments, "--yes", code=code)
    assert (len(world.dead()), world.queued()) == (1, [])
