"""moto's HTTP server, as the embedded AWS starts it."""

from collections.abc import Iterator
from http.client import HTTPConnection

import pytest
from moto import backends

from longhaul.local.credentials import aws_client
from longhaul.local.moto_server import MotoServer
from tests.local.support import REGION


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


@pytest.mark.parametrize("path", ["/moto-api/seed?a=1", "/moto-api/data.json", "/moto-api/reset"])
def test_motos_own_interface_is_not_served(endpoint: str, path: str) -> None:
    connection = HTTPConnection(endpoint.removeprefix("http://"))
    connection.request("GET", path)
    assert connection.getresponse().status == 404
    connection.close()
