"""A job's code has written values of wrong types into its row, as its role may."""

from typing import Any

import pytest

from longhaul.cli.target import Target
from tests.cli.conftest import World
from tests.cli.page.conftest import visitor_of, words
from tests.cli.page.scenes import started

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
    told = world.run("status", "evil")
    assert (told.exit_code, SAID in told.stderr) == (1, True)
    assert world.run("status").exit_code == 0
    assert SAID in caplog.messages
