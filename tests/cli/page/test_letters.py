"""Dead letters are received only when a person asks."""

import json

from longhaul.domain import attributes
from longhaul.domain.attributes import text
from tests.builders import DEAD_LETTER_QUEUE_URL
from tests.cli.conftest import World
from tests.cli.page.conftest import ROOT, Elements, Visitor, words
from tests.cli.page.scenes import EVIL
from tests.cli.page.test_jobs import away


def test_each_letter_is_shown_with_its_reason_and_stays_visible_to_others(
    world: World, visitor: Visitor
) -> None:
    ids = [world.bury(f"job-{n}", "failed", f"reason {n}") for n in range(12)]
    page = visitor.read("/dead-letters", stage="main")
    assert "job-7 failed 0s ago 3 reason 7" in words(page)
    assert [
        each["value"] for each in Elements(page).of("input") if each.get("name") == "letter"
    ] == ids
    assert world.dead() == ids


def test_only_this_page_receives_letters_and_it_does_not_refresh(
    world: World, visitor: Visitor
) -> None:
    world.bury("job")
    for path, query in (
        ("/", {}),
        ("/job", {"stage": "main", "id": "job"}),
        ("/ask/redrive", {"letter": "x"}),
    ):
        visitor.get(path, **query)
    assert world.aws.gate.counts["sqs.ReceiveMessage"] == 0
    assert "data-refresh" not in visitor.read("/dead-letters")
    assert world.aws.gate.counts["sqs.ReceiveMessage"] > 0


def test_hostile_text_in_a_letter_stays_text(world: World, visitor: Visitor) -> None:
    said = text(json.dumps({"class": EVIL, "reason": EVIL, "key": f"main#{EVIL}"}))
    world.aws.sqs.send_message(
        QueueUrl=DEAD_LETTER_QUEUE_URL,
        MessageBody=EVIL.replace("\x1b", "").replace("\x07", ""),
        MessageAttributes={
            attributes.EXPLANATION: {"DataType": "String", "StringValue": said["stringValue"]}
        },
    )
    world.aws.sqs.send_message(QueueUrl=DEAD_LETTER_QUEUE_URL, MessageBody="whatever")
    page = visitor.read("/dead-letters", stage="main")
    elements = Elements(page)
    assert len(elements.of("script")) == 1
    assert not [
        name
        for _, given in elements.found
        for name in given
        if name.startswith("on") or name == "style"
    ]
    assert not set("\u202e\x1b\x07") & set(page)
    assert all(str(each["href"]).startswith((f"{ROOT}/", "#")) for each in elements.of("a"))
    assert "no reason attached" in page


def test_a_long_list_of_letters_is_cut_and_says_so(world: World, visitor: Visitor) -> None:
    for n in range(105):
        world.bury(f"job-{n}")
    page = visitor.read("/dead-letters", stage="main")
    assert len([each for each in Elements(page).of("input") if each.get("name") == "letter"]) == 100
    assert "There are more than these 100" in page
    assert len(world.dead()) == 105


def test_an_empty_list_of_letters_says_so(visitor: Visitor) -> None:
    assert "No dead letters." in visitor.read("/dead-letters")
    assert visitor.get("/dead-letters", stage="nowhere").status_code == 404


def test_an_aws_that_does_not_answer_is_reported(world: World, visitor: Visitor) -> None:
    world.aws.gate.around = away
    answer = visitor.get("/dead-letters", stage="main")
    assert (answer.status_code, "no answer from" in answer.text) == (502, True)
