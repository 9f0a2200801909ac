"""What the native client does with an S3 in trouble, and what it leaves to s3transfer."""

import base64
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from pathlib import Path
from threading import Event, Thread
from typing import Any, cast
from urllib.parse import unquote

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.exceptions import ClientError, CredentialRetrievalError

from longhaul.core.places import DataPath
from longhaul.runner.io import disk_area, small_objects
from longhaul.runner.io.disk_area import DiskArea
from longhaul.runner.io.listing import InputListing, Source, digest_of
from longhaul.runner.io.small_objects import Placed, SmallObjects, address_of
from longhaul.runner.io.transfer import Moving, transfer
from longhaul.runner.stopping import Stop, StopReason, StopRequestedError
from tests.servers import serving

BODY = b"1,2,3\n"


class Server:
    """An S3 whose objects are named after the trouble that they have, in their first answers."""

    def __init__(self) -> None:
        self.gets: Counter[str] = Counter()
        self.tokens: list[str] = []
        self.asked, self.go_on = Event(), Event()
        self.endpoint = ""

    def answer(self, call: BaseHTTPRequestHandler) -> None:
        key = unquote(call.path).removeprefix("/data/")
        self.gets[key] += 1
        self.tokens.append(call.headers.get("X-Amz-Security-Token", ""))
        is_first = self.gets[key] == 1
        match key:
            case "reset" if is_first:
                call.close_connection = True
                return
            case "throttled" if is_first:
                respond(call, 503, error("SlowDown"))
            case "cut" if is_first:
                respond(call, 200, BODY[:2], length=len(BODY))
                call.close_connection = True
            case "damaged" if is_first:
                respond(call, 200, b"3,2,1\n", checksum=checksum(BODY))
            case "denied":
                respond(call, 403, error("AccessDenied", "not authorized to kms:Decrypt"))
            case "silent" if is_first:
                self.asked.set()
                self.go_on.wait(60)
            case _:
                respond(call, 200, BODY, checksum=checksum(BODY))


def respond(
    call: BaseHTTPRequestHandler, status: int, body: bytes, length: int = 0, checksum: str = ""
) -> None:
    call.send_response(status)
    call.send_header("Content-Length", str(length or len(body)))
    if checksum:
        call.send_header("x-amz-checksum-crc32", checksum)
    call.end_headers()
    call.wfile.write(body)


def error(code: str, message: str = "") -> bytes:
    return f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


def checksum(body: bytes) -> str:
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running = Server()

    with serving(running.answer) as running.endpoint:
        yield running
        running.go_on.set()


Fetch = Callable[..., list[Placed]]


@pytest.fixture
def fetch(server: Server, tmp_path: Path) -> Fetch:
    """Brings objects by the native client alone; returns what it leaves."""

    def fetch_(*keys: str, **given: Any) -> list[Placed]:
        credentials = given.pop("credentials", lambda: Credentials("key", "secret"))
        moving = Moving(given.pop("stop", None) or Stop(), **given)
        small = SmallObjects(s3_of(server), credentials)
        return list(small.left_of(placed(tmp_path, keys), moving))

    return fetch_


def s3_of(server: Server) -> Any:
    return boto3.client("s3", endpoint_url=server.endpoint)


def transferred(server: Server, files: Iterable[Placed]) -> None:
    """Bring files by s3transfer."""
    transfer(
        s3_of(server),
        disk_area._TRANSFER,
        files,
        lambda manager, source, place, subscribers: manager.download(
            source.bucket, source.key, str(place), subscribers=subscribers
        ),
        condition="IfMatch",
        moving=Moving(Stop()),
    )


def placed(folder: Path, keys: Iterable[str]) -> list[Placed]:
    return [(folder / str(n), Source("data", key, len(BODY))) for n, key in enumerate(keys)]


@pytest.mark.parametrize("trouble", ["throttled", "reset", "cut"])
def test_trouble_that_passes_is_tried_again(
    fetch: Fetch, server: Server, tmp_path: Path, trouble: str
) -> None:
    assert fetch(trouble) == []
    assert (tmp_path / "0").read_bytes() == BODY
    assert server.gets[trouble] == 2


def test_object_with_a_wrong_checksum_is_read_again_by_s3transfer(
    server: Server, fetch: Fetch, tmp_path: Path
) -> None:
    left = fetch("damaged")
    assert [source.key for _, source in left] == ["damaged"]

    transferred(server, left)
    assert (tmp_path / "0").read_bytes() == BODY


def test_after_a_failure_without_an_answer_all_the_rest_is_left(
    fetch: Fetch, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_objects, "_AT_ONCE", 1)
    left = fetch("fine", "damaged", "next", "last")
    assert [source.key for _, source in left] == ["damaged", "next", "last"]
    assert server.gets == {"fine": 1, "damaged": 1}


def test_silent_call_is_left_when_it_has_lasted_as_long_as_boto3_waits(
    fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def advance(_: int) -> None:
        # Only now: on a busy machine the other object may take as long.
        monkeypatch.setattr(small_objects, "_PATIENCE_S", 0.5)

    left = fetch("silent", "fine", advance=advance)
    assert [source.key for _, source in left] == ["silent"]


def test_refusal_is_raised_as_s3_words_it(fetch: Fetch, server: Server) -> None:
    left = fetch("denied", "fine")
    assert [source.key for _, source in left] == ["denied"]
    with pytest.raises(ClientError, match=r"AccessDenied.*not authorized to kms:Decrypt"):
        transferred(server, left)


@pytest.mark.parametrize(
    "key", ["a b+c.csv", "a%2Fb", "語.csv", "x//y", "x/../y", "/x", "~x{}[]'()*!", "x?y=1&z#w"]
)
def test_object_of_any_name_is_brought(
    fetch: Fetch, server: Server, tmp_path: Path, key: str
) -> None:
    assert fetch(key) == []
    assert (tmp_path / "0").read_bytes() == BODY
    assert server.gets == {key: 1}


@pytest.mark.parametrize("bucket", ["data", "my.data"])
@pytest.mark.parametrize(
    "place",
    [
        {"region_name": "us-east-1"},
        {"region_name": "eu-central-1"},
        {"region_name": "ap-southeast-3"},
        {"region_name": "cn-north-1"},
        {"region_name": "us-east-1", "endpoint_url": "http://127.0.0.1:4566"},
    ],
    ids=lambda place: " ".join(place.values()),
)
def test_native_client_asks_where_boto3_asks(place: dict[str, Any], bucket: str) -> None:
    urls: list[str] = []

    def sent(request: AWSPreparedRequest, **_: object) -> Any:
        urls.append(request.url)
        return AWSResponse(request.url, 200, cast("Any", {}), cast("Any", BytesIO(BODY)))

    s3 = boto3.client("s3", **place)
    s3.meta.events.register("before-send.s3.GetObject", sent)
    s3.get_object(Bucket=bucket, Key="a")

    assert f"{address_of(s3, bucket).geturl()}a" == urls[0]


def test_each_request_has_the_credentials_of_its_time(fetch: Fetch, server: Server) -> None:
    class Rotating:
        count = 0

        def get_frozen_credentials(self) -> Any:
            self.count += 1
            return Credentials("key", "secret", f"token {self.count}").get_frozen_credentials()

    rotating = cast("RefreshableCredentials", Rotating())
    fetch("a", "b", "c", credentials=lambda: rotating)
    assert sorted(server.tokens) == ["token 1", "token 2", "token 3"]


def test_progress_is_the_bytes_that_came(fetch: Fetch) -> None:
    came: list[int] = []
    fetch("a", "denied", "b", advance=came.append)
    assert came == [len(BODY), len(BODY)]


def test_stop_ends_what_is_under_way(fetch: Fetch, server: Server) -> None:
    stop = Stop()

    def request() -> None:
        server.asked.wait(60)
        stop.request(StopReason.TERMINATED, "SIGTERM")

    Thread(target=request).start()
    with pytest.raises(StopRequestedError, match="SIGTERM"):
        fetch("silent", stop=stop)


def test_no_native_client_passes_by_a_proxy(
    fetch: Fetch, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert len(fetch("a", "b")) == 2
    assert not server.gets


def test_all_is_left_where_credentials_cannot_be_looked_up_once_more(
    fetch: Fetch, server: Server
) -> None:
    def throttled() -> Credentials:
        raise CredentialRetrievalError(provider="container-role", error_msg="429")

    assert len(fetch("a", "b", credentials=throttled)) == 2
    assert not server.gets


def test_window_is_bounded_by_bytes(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_objects, "_WINDOW_BYTES", 2 * len(BODY))
    open_at_once: list[int] = []
    get = small_objects._Window.get

    def watched(window: Any, *given: Any) -> None:
        get(window, *given)
        open_at_once.append(len(window._open))

    monkeypatch.setattr(small_objects._Window, "get", watched)
    assert fetch(*map(str, range(20))) == []
    assert max(open_at_once) == 2


class Swallowed(SmallObjects):
    """Brings nothing, and says that all is there."""

    taken = 0

    def left_of(self, files: Iterable[Placed], _moving: Moving) -> Generator[Placed]:
        for _place in files:
            self.taken += 1
        yield from ()


def staged_bytes(folder: Path, objects: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """The most memory that staging takes."""
    s3 = cast("Any", Listed(objects, "raw/year=2013"))
    small = Swallowed(s3, lambda: None)
    area, inputs = DiskArea(boto3.client("s3"), folder, {}, small), InputListing(s3, "data")
    monkeypatch.setattr(DiskArea, "_check_disk", lambda *_: None)
    tracemalloc.start()
    try:
        staged = area.stage(inputs, {"raw": DataPath("s3", "landing", "raw/")}, Moving(Stop()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert staged["raw"].files == small.taken == objects
    return peak


def test_each_object_of_an_input_takes_less_than_300_bytes_however_many_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first one also imports, and Python's table of names grows.
    _, few, many = (
        staged_bytes(tmp_path / str(n), count, monkeypatch)
        for n, count in enumerate((25_000, 5_000, 25_000))
    )
    assert (many - few) / 20_000 < 300


def test_digest_does_not_depend_on_the_order_of_the_objects() -> None:
    sources = [Source("data", key, 1, etag=f'"{key}"') for key in ("a", "b/c", "b")]
    assert digest_of(sources) == digest_of(sources[::-1]) != digest_of(sources[:2])
    # As checkpoints of earlier versions name it.
    assert digest_of(sources) == "5fef9d324775ae65dc7f7653592f58ce"


class Listed:
    """An S3 that lists so many objects in a folder, page by page, and holds none."""

    def __init__(self, objects: int, folder: str) -> None:
        self._objects = objects
        self._folder = folder

    def get_object(self, **_: str) -> None:
        raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")

    head_object = get_object

    def get_paginator(self, _: str) -> "Listed":
        return self

    def paginate(self, **_: str) -> Iterator[Any]:
        for page in range(0, self._objects, 1_000):
            yield {
                "Contents": [
                    {
                        "Key": f"{self._folder}/flights-{number:08}.csv",
                        "Size": 60_000 + number,
                        "ETag": f'"{number:032x}"',
                    }
                    for number in range(page, min(page + 1_000, self._objects))
                ]
            }
