"""What docs/construct.md says of the client: its lines run, errors and rights are all there."""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import longhaul.client
from longhaul.client import Client, LonghaulError
from longhaul.core.policy import parse_request
from longhaul.core.verdict import OutcomeClass
from longhaul.outputs.manifest import ManifestFile
from tests.builders import BODY, BUCKET, QUEUE_URL
from tests.cli.conftest import World
from tests.layers import ROOT
from tests.operations.conftest import publish

PAGE = (ROOT / "docs" / "construct.md").read_text().partition("\n## The client")[2]
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
# What IAM calls the calls that have another name.
ACTIONS = {"sqs.SendMessageBatch": "sqs:SendMessage"}


def run_to_success(world: World, job_id: str) -> None:
    bodies = (each.body for each in world.aws.sqs.queues[QUEUE_URL].messages.values())
    (body,) = (body for body in bodies if json.loads(body)["job_id"] == job_id)
    request = parse_request(body, world.settings, world.settings.stages[0])
    row = world.claim(job_id, fingerprint=request.fingerprint())
    publish(world, row, "clean/2013-01/", ManifestFile(path="a.parquet", size=7))
    world.succeed(row)


def test_the_lines_of_the_page_run(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.clock.meanwhile.append(lambda: run_to_success(world, "flights-2013-01"))
    names: dict[str, Any] = {}
    for snippet in SNIPPETS:
        exec(snippet, names)  # noqa: S102 - the page's own lines
    assert capsys.readouterr().out.splitlines() == [
        f"s3://{BUCKET}/clean/2013-01/a.parquet 7",
        "SUCCEEDED 1 {}",
        "SUCCEEDED succeeded None",
    ]


def test_the_page_names_every_error() -> None:
    errors = {
        name
        for name in longhaul.client.__all__
        if name.endswith("Error") and issubclass(getattr(longhaul.client, name), LonghaulError)
    }
    assert set(re.findall(r"`(\w+Error)`", PAGE)) == errors


def test_the_page_names_every_right_that_the_calls_take(
    world: World, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    taken: set[str] = set()

    def ask(call: Callable[..., Any], *arguments: Any) -> Any:
        world.aws.gate.counts.clear()
        answer = call(*arguments)
        taken.update(ACTIONS.get(each, each.replace(".", ":", 1)) for each in world.aws.gate.counts)
        return answer

    ask(client.submit, {**BODY, "job_id": "done"})
    run_to_success(world, "done")
    ask(client.status, "done")
    ask(client.result, "done")
    ask(partial(client.rerun, tree=True), "done")
    ask(client.cancel, "queued")
    world.end(world.claim("released"), OutcomeClass.FAILED)
    assert ask(client.cancel, "released").state == "CANCELLED"
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")
    # Where a tree has joins, a message is put back, a key encrypts; and S3 refuses to read what is
    # not there, unless one may list.
    rarely = {"dynamodb:ConditionCheckItem", "dynamodb:Query", "sqs:ChangeMessageVisibility"}
    rarely |= {"kms:Decrypt", "s3:ListBucket"}
    assert set(re.findall(r"`(\w+:\w+)`", PAGE)) == taken | rarely
