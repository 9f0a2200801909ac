"""Requests of web pages are refused by every service; requests of AWS clients are served."""

import http.client
import socket
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config

from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import FAKE_KEY
from tests.local.support import REGION

MINE = "{own}"
SIGNED = "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/sqs/aws4_request"
FROM_A_PAGE = [
    pytest.param({"Origin": "http://evil.example"}, id="another origin"),
    pytest.param({"Origin": "null"}, id="an opaque origin"),
    pytest.param({"Origin": ""}, id="an empty origin"),
    pytest.param({"Origin": f"http://{MINE}"}, id="the origin of the service"),
    pytest.param({"Sec-Fetch-Site": "cross-site"}, id="cross-site"),
    pytest.param({"Sec-Fetch-Site": "same-site"}, id="another port of this machine"),
    pytest.param({"Sec-Fetch-Site": "something-new"}, id="an unknown site"),
    pytest.param({"Sec-Fetch-Site": "none"}, id="a typed link, which a page may redirect"),
    pytest.param({"Sec-Fetch-Site": "same-origin"}, id="same-origin"),
    pytest.param({"Sec-Fetch-Site": ""}, id="an empty site"),
    pytest.param({"User-Agent": "Mozilla/5.0 (X11)"}, id="a browser that names no site"),
    pytest.param(
        {"User-Agent": "Mozilla/5.0 (X11)", "Authorization": "Basic bWU6bWU="},
        id="a browser that sends the password of a link",
    ),
    pytest.param({"Origin": "null", "Authorization": SIGNED}, id="a page that signs a request"),
    pytest.param({"Host": "evil.example"}, id="a foreign name"),
    pytest.param({"Host": "evil.example:{port}"}, id="a foreign name with the port"),
    pytest.param({"Host": "127.0.0.1.evil.example:{port}"}, id="a name that begins like ours"),
    pytest.param({"Host": "localhost.evil.example:{port}"}, id="a name that begins like localhost"),
    pytest.param({"Host": "evillocalhost:{port}"}, id="a name that ends like localhost"),
    pytest.param({"Host": "bucket.s3.amazonaws.com"}, id="a name of AWS"),
    pytest.param({"Host": "localhost.:{port}"}, id="localhost with a dot"),
    pytest.param({"Host": ".localhost:{port}"}, id="an empty name below localhost"),
    pytest.param({"Host": "user@localhost:{port}"}, id="a user at localhost"),
    pytest.param({"Host": "evil.example/.localhost:{port}"}, id="a path that ends like localhost"),
    pytest.param({"Host": ""}, id="an empty host"),
]
FROM_A_CLIENT = [
    pytest.param({}, id="no header of a browser"),
    pytest.param(
        {"User-Agent": "Mozilla/5.0 (compatible; pycurl)", "Authorization": SIGNED},
        id="a signed request of Celery",
    ),
    pytest.param({"Host": "localhost:{port}"}, id="localhost"),
    pytest.param({"Host": "LOCALHOST:{port}"}, id="localhost in capitals"),
    pytest.param({"Host": "bucket.localhost:{port}"}, id="a bucket of localhost"),
    # As Docker's bridge has it, or a tunnel from another port. No page can choose such a Host.
    pytest.param({"Host": "172.17.0.1"}, id="another address of this machine"),
]
METHODS = ("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD")


def ask(
    address: str,
    method: str = "GET",
    path: str = "/",
    *,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> http.client.HTTPResponse:
    """One request. Values of headers may hold `{own}` and `{port}`, the service's address."""
    host, port = address.rsplit(":", 1)
    with closing(http.client.HTTPConnection(host, int(port), timeout=10)) as connection:
        filled = {
            name: value.format(own=address, port=port) for name, value in (headers or {}).items()
        }
        connection.request(method, path, body, filled)
        response = connection.getresponse()
        response.read()
        return response


@pytest.fixture
def service(aws: EmbeddedAws) -> str:
    return urlsplit(aws.endpoint).netloc


@pytest.mark.parametrize("headers", FROM_A_PAGE)
def test_a_request_of_a_web_page_is_refused(service: str, headers: dict[str, str]) -> None:
    for method in METHODS:
        response = ask(service, method, "/moto-api/reset", headers=headers)
        assert response.status == 403, method


@pytest.mark.parametrize("headers", FROM_A_CLIENT)
def test_a_request_of_a_client_is_served(service: str, headers: dict[str, str]) -> None:
    for method in ("GET", "POST"):
        assert ask(service, method, "/v4/x/y", headers=headers).status == 404


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: {own}\r\nHost: evil.example\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: evil\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: evil\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_a_request_without_one_clear_host_is_refused(service: str, raw: bytes) -> None:
    host, port = service.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(raw.replace(b"{own}", service.encode()))
        said = connection.makefile("rb").read()
    assert b"this service has another name" in said


def test_a_refused_request_changes_nothing(aws: EmbeddedAws, client: Callable[[str], Any]) -> None:
    client("sqs").create_queue(QueueName="precious")
    address = urlsplit(aws.endpoint).netloc
    page = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert ask(address, "POST", "/moto-api/reset", headers=page).status == 403
    assert ask(address, "PUT", "/bucket", headers=page).status == 403
    assert len(client("sqs").list_queues()["QueueUrls"]) == 1
    assert client("s3").list_buckets()["Buckets"] == []


@pytest.mark.parametrize(
    ("host", "style"),
    [
        ("127.0.0.1", "path"),
        ("127.0.0.1", "auto"),
        ("localhost", "path"),
        ("localhost", "auto"),
        ("localhost", "virtual"),
    ],
)
def test_boto3_reaches_its_buckets_in_every_style_of_address(
    aws: EmbeddedAws, host: str, style: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = socket.getaddrinfo
    # As systemd's resolver and browsers do. Others may not know names below localhost.
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda name, *rest, **more: resolve(
            "127.0.0.1" if name.endswith("localhost") else name, *rest, **more
        ),
    )
    s3: Any = boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{urlsplit(aws.endpoint).port}",
        region_name=REGION,
        aws_access_key_id=FAKE_KEY,
        aws_secret_access_key=FAKE_KEY,
        config=Config(s3={"addressing_style": style}),
    )
    s3.create_bucket(Bucket="data")
    s3.put_object(Bucket="data", Key="a/b.txt", Body=b"text")
    assert s3.get_object(Bucket="data", Key="a/b.txt")["Body"].read() == b"text"
    assert [each["Key"] for each in s3.list_objects_v2(Bucket="data")["Contents"]] == ["a/b.txt"]
