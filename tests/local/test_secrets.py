"""Secrets in the embedded AWS: set by the command, kept between starts."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from longhaul.cli import stage_secrets
from longhaul.core.errors import SecretUnreadableError
from longhaul.core.secret_refs import SecretRef
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import aws_client
from longhaul.local.state.store import FOLDER, Store
from longhaul.runner.variables import AwsSecretValues
from tests.local.support import REGION

if TYPE_CHECKING:
    from longhaul.cli.target import Target

SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:shop/db-AbCd12"
PARAMETER = "arn:aws:ssm:us-east-1:123456789012:parameter/shop/token"
Client = Callable[[str], Any]


@pytest.fixture
def start(tmp_path: Path, assembly: Callable[..., Path]) -> Any:
    queue = {"Queue": {"Type": "AWS::SQS::Queue"}}
    folder = assembly(queue, "", {})
    work = tmp_path / "work"
    work.mkdir()

    @contextmanager
    def started() -> Iterator[Client]:
        store = Store(work / FOLDER, "Tiny").open()
        with EmbeddedAws(work_dir=work, task_dir=work, store=store) as aws:
            aws.deploy(folder, "Tiny")
            yield lambda name: aws_client(name, endpoint=aws.endpoint, region=REGION)

    return started


def put(client: Client, text: str, value: str) -> None:
    target = cast("Target", SimpleNamespace(client=client))
    stage_secrets.put(target, SecretRef.parse(text), value)


def read(client: Client, text: str) -> str:
    return AwsSecretValues(client).read_secret(SecretRef.parse(text))


def test_what_was_set_is_read_by_its_arn_now_and_after_the_next_start(start: Any) -> None:
    with start() as client:
        with pytest.raises(SecretUnreadableError):
            read(client, SECRET)
        put(client, f"{SECRET}:password::", "first")
        put(client, f"{SECRET}:user::", "a")
        put(client, PARAMETER, "token")
        assert read(client, f"{SECRET}:password::") == "first"
        put(client, f"{SECRET}:password::", "rotated")
        put(client, PARAMETER, "rotated too")
    with start() as client:
        assert json.loads(read(client, SECRET)) == {"password": "rotated", "user": "a"}
        assert read(client, PARAMETER) == "rotated too"
        target = cast("Target", SimpleNamespace(client=client))
        for text in (SECRET, PARAMETER):
            assert stage_secrets.is_there(target, SecretRef.parse(text))
        client("secretsmanager").delete_secret(SecretId=SECRET, ForceDeleteWithoutRecovery=True)
    with start() as client, pytest.raises(SecretUnreadableError):
        read(client, SECRET)
