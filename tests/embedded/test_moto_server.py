"""moto's HTTP server, as the embedded AWS starts it."""

from collections.abc import Iterator

import pytest
from moto import backends

from embedded.credentials import aws_client
from embedded.moto_server import MotoServer
from tests.embedded.support import REGION


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = MotoServer(0)
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


def test_the_service_of_a_request_is_looked_up_once(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = []
    stock_list = backends.list_of_moto_modules
    monkeypatch.setattr(
        backends, "list_of_moto_modules", lambda: lists.append(1) or list(stock_list())
    )
    sqs, dynamodb = (
        aws_client(name, endpoint=endpoint, region=REGION) for name in ("sqs", "dynamodb")
    )

    for _ in range(5):
        assert "QueueUrls" not in sqs.list_queues()
        assert dynamodb.list_tables()["TableNames"] == []

    assert len(lists) == 2
