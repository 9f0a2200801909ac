import json
from datetime import timedelta
from typing import Any

import pytest

from longhaul.domain import attributes
from longhaul.domain.attributes import text
from longhaul.domain.message import Message
from longhaul.domain.verdict import Evidence
from longhaul.engines.aws_lambda.ends import ended, ends_by
from longhaul.operations.letter import explanation_of
from simulation.aws.service import Call, Proceed, client_error
from simulation.aws.sqs.batch import EntryFault
from tests.builders import DEAD_LETTER_QUEUE_URL
from tests.cli.conftest import World


def classes(output: str) -> list[str]:
    return [line.split("\t")[4] for line in output.splitlines()]


def test_the_list_shows_each_letter_once_with_its_reason_and_leaves_it_visible(
    world: World,
) -> None:
    ids = [world.bury(f"job-{n}", why=f"reason {n}") for n in range(25)]
    done = world.run("dlq", "list")
    assert done.exit_code == 0
    assert sorted(line.split("\t")[0] for line in done.stdout.splitlines()) == sorted(ids)
    assert "reason 24" in done.stdout
    assert world.dead() == ids


def test_the_list_of_all_stages_says_in_which_stage_each_letter_is(world: World) -> None:
    world.bury("one")
    (line,) = world.run("dlq", "list").stdout.splitlines()
    assert line.split("\t")[1:5] == ["one", "", "main", "failed"]


def test_the_list_stops_at_its_limit_and_says_so(world: World) -> None:
    for n in range(25):
        world.bury(f"job-{n}")
    done = world.run("dlq", "list", "--limit", "3")
    assert len(done.stdout.splitlines()) == 3
    assert "there are more" in done.stderr
    assert len(world.dead()) == 25


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
        found = {
            line.split("\t")[1] for line in world.run("dlq", "list", *arguments).stdout.splitlines()
        }
        assert found == expected, arguments


@pytest.mark.parametrize(
    "command", [("list",), ("redrive", "--yes"), ("drop", "--yes"), ("drop", "--dry-run")]
)
def test_a_name_without_a_letter_exits_3_and_an_unknown_class_2(
    world: World, command: tuple[str, ...]
) -> None:
    world.bury("there", kind="failed")
    wrong = world.run("dlq", *command, "--class", "faild")
    assert (wrong.exit_code, "no class faild: there are" in wrong.stderr) == (2, True)
    assert world.run("dlq", *command, "--class", "stalled").exit_code == 0
    missing = world.run("dlq", *command, "there", "nobody")
    assert missing.exit_code == 3
    assert "no dead letter of job or message nobody: `longhaul dlq list`" in missing.stderr
    assert len(world.dead()) == (command[-1] != "--yes")


def test_a_class_of_another_version_can_be_selected(world: World) -> None:
    world.bury("a", kind="of_tomorrow")
    assert world.run("dlq", "list", "--class", "of_tomorrow").exit_code == 0


def test_a_letter_without_an_explanation_is_listed_too(world: World) -> None:
    world.aws.sqs.send_message(QueueUrl=DEAD_LETTER_QUEUE_URL, MessageBody="whatever")
    done = world.run("dlq", "list")
    assert classes(done.stdout) == ["unexplained"]
    assert "no reason attached" in done.stdout


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
    found = explanation_of(Message("", {attributes.EXPLANATION: text(said)}))
    assert (found and found.kind) == kind
    assert found is None or (found.attempts, found.key) == (0, None)


def test_a_whole_letter_is_shown(world: World) -> None:
    world.bury("evil", why="\x1b[2Jgone\n")
    done = world.run("dlq", "show", "evil")
    assert (done.exit_code, "\x1b" in done.output) == (0, False)
    assert (
        dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line)["reason"]
        == "\\x1b[2Jgone\\n"
    )
    assert '"of": "evil"' in done.stdout
    record = json.loads(world.run("dlq", "show", "evil", "--json").stdout)
    assert (record["class"], json.loads(record["body"])["params"]) == ("failed", {"of": "evil"})
    assert world.run("dlq", "show", "nobody").exit_code == 3
    assert len(world.dead()) == 1


def test_a_redrive_sends_body_and_attributes_back_as_the_producer_sent_them(world: World) -> None:
    binary = {"dataType": "Binary", "binaryValue": "AAH/"}
    ten = {"bin": binary, **{f"a{n}": text(str(n)) for n in range(9)}}
    world.bury("job", **ten)
    done = world.run("dlq", "redrive", "job", "--yes")
    assert (done.exit_code, done.stdout) == (0, "job\n")
    assert world.dead() == []
    (message,) = world.queued()
    assert json.loads(message["Body"])["params"] == {"of": "job"}
    sent = message["MessageAttributes"]
    assert sent["job_id"]["StringValue"] == "job"
    assert "longhaul" not in sent
    moved = json.loads(sent["moved_attributes"]["StringValue"])
    kept = {
        **{
            name: value
            for name, value in sent.items()
            if name not in ("job_id", "moved_attributes")
        },
        **moved,
    }
    assert kept.keys() == ten.keys()
    assert (sent.get("bin") or {"BinaryValue": b"\0\1\xff"})["BinaryValue"] == b"\0\1\xff"


def test_a_redrive_may_have_its_jobs_begin_afresh(world: World) -> None:
    world.bury("job")
    assert world.run("dlq", "redrive", "job", "--afresh", "--yes").exit_code == 0
    (message,) = world.queued()
    assert json.loads(message["Body"])["afresh"] is True


def test_a_letter_that_sqs_moved_keeps_the_key_made_from_its_id(
    world: World,
) -> None:
    sent = world.aws.sqs.send_message(QueueUrl=DEAD_LETTER_QUEUE_URL, MessageBody="{}")["MessageId"]
    world.run("dlq", "redrive", "--all", "--yes")
    (message,) = world.queued()
    assert message["MessageAttributes"]["job_id"]["StringValue"] == sent


def test_a_redrive_leaves_other_letters_alone(world: World) -> None:
    for n in range(30):
        world.bury(f"job-{n}", kind="failed" if n % 3 else "stalled")
    done = world.run("dlq", "redrive", "--class", "stalled", "--yes")
    assert sorted(done.stdout.split()) == sorted(f"job-{n}" for n in range(0, 30, 3))
    assert len(world.dead()) == 20
    assert len(world.queued()) == 10


def test_a_dry_run_counts_the_letters_and_changes_nothing(world: World) -> None:
    world.bury("a")
    world.bury("b", kind="stalled")
    for command in ("redrive", "drop"):
        done = world.run("dlq", command, "--all", "--dry-run")
        assert (done.exit_code, done.stdout) == (0, "")
        assert "2: 1 failed, 1 stalled" in done.stderr
    assert (len(world.dead()), world.queued()) == (2, [])


def test_a_selection_and_a_yes_are_required(world: World) -> None:
    world.bury("a")
    assert "say which" in world.run("dlq", "drop", "--yes").stderr
    assert (
        "--all means all" in world.run("dlq", "drop", "--all", "--class", "failed", "--yes").stderr
    )
    unasked = world.run("dlq", "drop", "--all")
    assert (unasked.exit_code, "give --yes" in unasked.stderr) == (2, True)
    assert len(world.dead()) == 1


def test_a_no_to_the_question_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longhaul.cli.terminal.output.is_interactive", lambda: True)
    world.bury("a")
    no = world.run("dlq", "drop", "--all", input="n\n")
    assert (no.exit_code, "nothing was done" in no.stderr, len(world.dead())) == (1, True, 1)
    assert "drop 1 dead letter (1 failed)?" in no.stderr
    interrupted = world.run("dlq", "drop", "--all", input="")  # Ctrl-D ends it like Ctrl-C
    assert (interrupted.exit_code, len(world.dead())) == (130, 1)
    assert world.run("dlq", "drop", "--all", input="y\n").exit_code == 0
    assert world.dead() == []


def test_only_the_counted_letters_are_handled_and_not_later_ones(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.bury("a")

    def confirm(*_: Any, **__: Any) -> None:
        world.bury("b")

    monkeypatch.setattr("longhaul.cli.terminal.output.Output.confirm", confirm)
    done = world.run("dlq", "drop", "--all")
    assert done.stdout == "a\n"
    assert len(world.dead()) == 1


def test_a_job_that_dies_again_at_once_is_not_redriven_twice(world: World) -> None:
    world.bury("poison")

    def around(call: Call, proceed: Proceed) -> dict[str, Any]:
        answer = proceed()
        if call.operation == "SendMessageBatch":
            world.clock.advance(1)
            world.bury("poison")
        return answer

    world.aws.gate.around = around
    done = world.run("dlq", "redrive", "--all", "--yes")
    assert (done.exit_code, done.stdout) == (0, "poison\n")
    assert len(world.dead()) == 1


@pytest.mark.parametrize(
    "operation", ["ReceiveMessage", "SendMessageBatch", "DeleteMessage", "GetQueueAttributes"]
)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_interrupt_anywhere_in_a_redrive_loses_no_letter(
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
    done = world.run("dlq", "redrive", "--all", "--yes")
    assert done.exit_code == 130
    world.aws.gate.around = None
    world.clock.advance(600)  # a received letter whose handle was lost shows again
    left = [
        attributes.value_of(
            {"job_id": {"stringValue": message.attributes["job_id"]["StringValue"]}}, "job_id"
        )
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
    done = world.run("dlq", "redrive", "--all", "--yes")
    assert (done.exit_code, done.stdout) == (1, "good\n")
    assert "bad: not done: InvalidParameterValue: too large" in done.stderr
    assert world.dead() == [bad]


def test_dropped_letters_are_gone_and_printed(world: World) -> None:
    ids = [world.bury("a"), world.bury("b")]
    done = world.run("dlq", "drop", "a", "--yes", "--json")
    assert json.loads(done.stdout) == {
        "message_id": ids[0],
        "job_id": "a",
        "label": None,
        "class": "failed",
    }
    assert world.dead() == [ids[1]]


def test_letters_are_printed_by_their_ids_whatever_people_call_the_job(world: World) -> None:
    world.bury("a", label="last night")
    assert world.run("dlq", "redrive", "a", "--yes").stdout == "a\n"
    world.bury("a", label="last night")
    record = json.loads(world.run("dlq", "drop", "a", "--yes", "--json").stdout)
    assert (record["job_id"], record["label"]) == ("a", "last night")


def test_a_letter_with_hostile_attributes_is_sent_back_like_the_others(world: World) -> None:
    hostile = {attributes.MOVED: text('{"x":{}}')}
    world.bury("hostile", **hostile)
    world.bury("honest")
    done = world.run("dlq", "redrive", "--all", "--yes")
    assert (done.exit_code, world.dead()) == (0, [])


def test_a_letter_that_sqs_refuses_stays_and_the_others_are_sent_back(world: World) -> None:
    refused = world.bury("refused")
    world.bury("honest")
    usual = world.aws.gate.around

    def around(call: Call, proceed: Proceed) -> Any:
        if call.operation == "SendMessageBatch" and "refused" in str(call.arguments):
            raise client_error("BatchRequestTooLong", "Batch requests cannot be longer", "Send")
        return usual(call, proceed) if usual else proceed()

    world.aws.gate.around = around
    done = world.run("dlq", "redrive", "--all", "--yes")
    assert done.exit_code == 1
    assert "BatchRequestTooLong" in done.output
    assert world.dead() == [refused]


@pytest.mark.parametrize("says_its_name", [True, False])
def test_a_redrive_says_until_when_a_tiny_job_waits_for_its_invocation(
    world: World, *, says_its_name: bool
) -> None:
    until = world.clock.now() + timedelta(minutes=15)
    lease, task = world.claim_tiny("flights", until)
    said = ended("exit code 1", task) if says_its_name else "exit code 1"
    cause = json.dumps({"errorMessage": said, "errorType": "JobEnded"})
    world.end(lease, evidence=Evidence("JobEnded", cause))
    world.bury("flights")

    done = world.run("dlq", "redrive", "flights", "--yes")

    waits = "flights: starts when the invocation of attempt 1 has ended for certain, by 20"
    assert (done.exit_code, waits in done.stderr) == (0, not says_its_name)
    page = " ".join(world.run("status", "flights").stdout.split())
    waits = (
        "next run if it was sent again, starts when the invocation of attempt 1 has ended for"
        f" certain, by {ends_by(task):%Y-%m-%d %H:%M:%SZ}: it cannot be asked, nor stopped"
    )
    assert (waits in page) == (not says_its_name)
    world.clock.advance(17 * 60)
    assert "next run" not in world.run("status", "flights").stdout
