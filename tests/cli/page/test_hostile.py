"""What jobs and producers write is only text, on every page."""

import json

import pytest

from longhaul.core.message import EXPLANATION, Message, text
from longhaul.core.verdict import OutcomeClass
from longhaul.engines.fargate.ends import FARGATE
from tests.builders import DEAD_LETTER_QUEUE_URL
from tests.cli.conftest import World
from tests.cli.page.conftest import ROOT, Elements, Visitor
from tests.cli.page.scenes import EVIL, member_id, started, tree


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
