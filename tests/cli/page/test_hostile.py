"""What jobs and producers write is only text, on every page."""

import json
from pathlib import Path
from typing import Any

import pytest

from longhaul.cli.target import Target
from longhaul.core.message import EXPLANATION, Message, text
from longhaul.core.verdict import OutcomeClass
from longhaul.engines.fargate.ends import FARGATE
from tests.builders import DEAD_LETTER_QUEUE_URL
from tests.cli.conftest import World
from tests.cli.page.conftest import ROOT, Elements, Visitor, visitor_of, words
from tests.cli.page.scenes import EVIL, member_id, multitude, started, tree


def _spread(world: World) -> None:
    """Hostile text wherever there may be any."""
    root = tree(world, 5, 4, label=EVIL)
    world.refuse(f"clean#{member_id(root, 4)}", EVIL)
    lease = started(world, world.claim("evil"), 0.5, EVIL)
    world.parts.requests.put(lease.request_ref, Message(json.dumps({"params": {EVIL: EVIL}}), {}))
    stream = f"{FARGATE.log_prefix}task-evil-1"
    world.aws.logs.write(world.settings.job_log_group, stream, EVIL, json.dumps({"message": EVIL}))
    world.end(lease, OutcomeClass.FAILED, EVIL)
    started(world, world.claim("phase"), 0.5, EVIL)
    said = text(json.dumps({"class": EVIL, "reason": EVIL, "key": f"main#{EVIL}"}))
    world.aws.sqs.send_message(
        QueueUrl=DEAD_LETTER_QUEUE_URL,
        MessageBody=EVIL.replace("\x1b", "").replace("\x07", ""),
        MessageAttributes={EXPLANATION: {"DataType": "String", "StringValue": said["stringValue"]}},
    )


@pytest.mark.parametrize(
    "path",
    ["/", "/job?stage=main&id=evil", "/job?stage=main&id=year", "/dead-letters?stage=main"],
)
def test_hostile_text_is_neither_markup_nor_invisible(
    world: World, pipeline: Visitor, path: str
) -> None:
    _spread(world)
    page = pipeline.read(path)
    elements = Elements(page)
    assert [each.get("src") for each in elements.of("script")] == [f"{ROOT}/static/page.js"]
    assert {each.get("src") for each in elements.of("img")} == {f"{ROOT}/static/icon.svg"}
    assert all(str(each["href"]).startswith((f"{ROOT}/", "#")) for each in elements.of("a"))
    assert not [
        name
        for _, given in elements.found
        for name in given
        if name.startswith("on") or name == "style"
    ]
    assert not set("\u202e\x1b\x07") & set(page)
    assert page.count("&lt;script&gt;") >= 3
    assert "{{7*7}}" in page


# The page in a file: it loads nothing, can do nothing, and is safe from hostile text.


MARKUP = "</style></td><script>alert(1)</script><a href=x>\u202e\x1b[31m\" ' &amp;"


def test_an_exported_page_shows_the_jobs_loads_nothing_and_obeys_no_text(
    world: World, tmp_path: Path
) -> None:
    first = world.claim("january")
    world.clock.advance(60)
    second = world.retry(world.end(first, OutcomeClass.FAILED, "the disk is full"))
    world.clock.advance(120)
    world.end(second, OutcomeClass.SUCCEEDED)
    world.end(world.claim("february"), OutcomeClass.PERMANENT, MARKUP)
    world.claim("march")
    file = tmp_path / "page.html"
    assert world.run("console", "--export", str(file)).stdout == f"{file}\n"
    written = file.read_text()

    said, elements = words(written), Elements(written)
    for each in ("january", "succeeded", "february", "dead", "march", "running", "Timeline"):
        assert each in said
    assert len(elements.of("svg")) > 1
    assert not {"script", "link", "img", "a", "form", "button", "dialog"} & {
        tag for tag, _ in elements.found
    }
    assert not [name for _, given in elements.found for name in given if name in ("src", "href")]
    assert "default-src 'none'" in written
    assert (
        "&lt;/style&gt;&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;a href=x&gt;" in written
    )
    assert not set("\u202e\x1b") & set(written)


def test_of_thousands_of_jobs_all_are_counted_and_five_hundred_listed(
    world: World, tmp_path: Path
) -> None:
    multitude(world, 1_200)
    file = tmp_path / "page.html"
    world.run("console", "--export", str(file))
    page = file.read_text()
    assert "1,200" in page
    assert "job-01199" in page
    assert "job-00699" not in page


# A job's code has written values of wrong types into its row, as its role may.


SAID = "the row of main#evil cannot be read by this version"


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("progress", {"S": "[]"}),
        ("progress", {"N": "-1"}),
        ("task_arn", {"L": [{"S": "a"}]}),
        ("task_arn", {"BOOL": True}),
        ("saved_ref", {"SS": ["a"]}),
        ("saved_bytes", {"S": "many"}),
        ("started_at", {"N": "9" * 38}),
        ("result", {"S": '{"attempt":1,"kind":"failed","error":5}'}),
        ("output", {"S": '{"attempt":1,"files":"a","size_bytes":1}'}),
        ("output", {"S": '{"attempt":1,"files":1,"size_bytes":1e308}'}),
        ("output", {"S": '{"attempt":1,"files":1,"size_bytes":1,"emitted":{"clean":"x"}}'}),
        ("output", {"S": '{"attempt":1,"files":1,"size_bytes":1,"beside":[{"name":[]}]}'}),
    ],
)
def test_such_a_row_is_shown_as_unreadable(
    world: World,
    target: Target,
    caplog: pytest.LogCaptureFixture,
    attribute: str,
    value: dict[str, Any],
) -> None:
    row = started(world, world.claim("evil"))
    world.aws.dynamodb.update_item(
        TableName="leases",
        Key={"key": {"S": row.key}, "item": {"S": "lease"}},
        UpdateExpression="SET #a = :v",
        ExpressionAttributeNames={"#a": attribute},
        ExpressionAttributeValues={":v": value},
    )

    visitor = visitor_of(target)
    assert visitor.get("/").status_code == 200
    assert SAID in words(visitor.get("/job", stage="main", id="evil").text)
    world.run("status", "evil", code=1, says=SAID)
    world.run("status")
    assert SAID in caplog.messages
