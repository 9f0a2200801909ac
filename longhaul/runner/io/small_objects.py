"""Small objects by AWS's native client, which takes a fourth of the CPU time or less.

s3transfer holds the interpreter's lock for most of a small GET, so that more cores do not help.
What the native client does not bring, for whatever reason, is left to s3transfer: the errors and
the patience of an attempt are the same with both.
"""

import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, quote, urlsplit

from botocore.httpsession import get_cert_path
from botocore.utils import get_environ_proxies

from longhaul.runner.io.listing import Source
from longhaul.runner.io.transfer import Moving

if TYPE_CHECKING:
    from awscrt.io import TlsConnectionOptions
    from awscrt.s3 import S3Client as NativeClient
    from awscrt.s3 import S3Request
    from botocore.credentials import Credentials
    from mypy_boto3_s3 import S3Client

_MIB: Final = 1024 * 1024
# The native client holds an object in memory until it is whole. At 1 MB it takes as much CPU time
# as s3transfer.
MAX_BYTES: Final = _MIB
"""The largest object that counts as small."""
_WINDOW_BYTES: Final = 64 * _MIB
_AT_ONCE: Final = 48
# A second client is not worth its connections for fewer.
FEW: Final = 16
_THREADS: Final = 2
_STOP_CHECK_S: Final = 0.25
# boto3's read timeout. The native client tries a silent call six times, for 30 s each.
_PATIENCE_S: Final = 60

Placed = tuple[Path, Source]

logger = logging.getLogger(__name__)


@dataclass
class SmallObjects:
    """`client` says where a bucket is; `credentials` looks them up for a download."""

    client: "S3Client"
    credentials: Callable[[], "Credentials | None"]

    def left_of(self, files: Iterable[Placed], moving: Moving) -> Generator[Placed]:
        """Bring the small ones to their places, and yield those that are not brought.

        Raises:
            StopRequestedError: the attempt has to stop.
        """
        try:
            native = self._native()
        except Exception as error:  # noqa: BLE001 - of any kind: s3transfer says what is wrong
            logger.warning("no native client", extra={"error": type(error).__name__})
            native = None
        if native is None:
            yield from files
            return
        address = cache(partial(address_of, self.client))
        with closing(_Window(native, address, moving)) as window:
            for place, source in files:
                moving.stop.check()
                if _is_small(source):
                    while not window.has_room(source.size):
                        yield from window.ended()
                    if not window.is_in_trouble:
                        window.get(place, source)
                        continue
                yield place, source
            while window.is_open:
                yield from window.ended()

    def _native(self) -> "NativeClient | None":
        """The client; None behind a proxy, which it would pass by."""
        from awscrt import auth, io, s3  # noqa: PLC0415 - for many files alone

        meta, found = self.client.meta, self.credentials()
        if found is None or get_environ_proxies(meta.endpoint_url):
            return None

        def frozen() -> auth.AwsCredentials:
            # For each request: they expire.
            now = found.get_frozen_credentials()
            return auth.AwsCredentials(now.access_key, now.secret_key, now.token)

        group = io.EventLoopGroup(_THREADS)
        is_tls = meta.endpoint_url.startswith("https:")
        return s3.S3Client(
            bootstrap=io.ClientBootstrap(group, io.DefaultHostResolver(group)),
            region=meta.region_name,
            tls_mode=s3.S3RequestTlsMode.ENABLED if is_tls else s3.S3RequestTlsMode.DISABLED,
            tls_connection_options=_trusting_as_boto3() if is_tls else None,
            signing_config=s3.create_default_s3_signing_config(
                region=meta.region_name,
                credential_provider=auth.AwsCredentialsProvider.new_delegate(frozen),
            ),
            max_active_connections_override=_AT_ONCE,
        )


def address_of(client: "S3Client", bucket: str) -> SplitResult:
    """The URL of an object in the bucket with an empty name, as boto3's own requests have it."""
    url = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "key"})
    address, endpoint = urlsplit(url), urlsplit(client.meta.endpoint_url)
    host = address.netloc
    if host == f"{bucket}.s3.amazonaws.com":
        # A presigned URL names the global endpoint, which regions since 2019 do not have.
        host = f"{bucket}.{endpoint.netloc}"
    return address._replace(netloc=host, path=address.path.removesuffix("key"), query="")


def count_small(sources: Iterable[Source]) -> int:
    """How many of them are small objects."""
    return sum(map(_is_small, sources))


def _is_small(source: Source) -> bool:
    return bool(source.bucket) and source.size <= MAX_BYTES


@dataclass
class _Window:
    """The requests under way: a bounded number, of a bounded size."""

    native: "NativeClient"
    address: Callable[[str], SplitResult]
    moving: Moving
    is_in_trouble: bool = False
    """Whether a request had no answer that S3 meant for it: a throttle, or no connection."""
    _open: "dict[Path, tuple[Source, S3Request]]" = field(default_factory=dict)
    _bytes: int = 0
    _ends: "SimpleQueue[tuple[Path, bool, int | None]]" = field(default_factory=SimpleQueue)

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    def has_room(self, size: int) -> bool:
        return len(self._open) < _AT_ONCE and self._bytes + size <= _WINDOW_BYTES

    def get(self, place: Path, source: Source) -> None:
        from awscrt import http, s3  # noqa: PLC0415 - as above

        def done(error: Exception | None, status_code: int | None, **_: object) -> None:
            self._ends.put((place, error is None, status_code))

        address = self.address(source.bucket)
        headers = http.HttpHeaders([("Host", address.netloc)])
        if source.etag:
            headers.add("If-Match", source.etag)
        self._bytes += source.size
        request = self.native.make_request(
            # One GET of the whole object. `GET_OBJECT` would ask for ranges.
            type=s3.S3RequestType.DEFAULT,
            operation_name="GetObject",
            request=http.HttpRequest("GET", address.path + quote(source.key, "/~"), headers),
            recv_filepath=str(place),
            checksum_config=s3.S3ChecksumConfig(validate_response=True),
            on_done=done,
        )
        self._open[place] = source, request

    def ended(self) -> Iterator[Placed]:
        """Wait for the end of a request; yields its object unless it was brought.

        Raises:
            StopRequestedError: the attempt has to stop.
        """
        for waits in count(1):
            self.moving.stop.check()
            with suppress(Empty):
                place, is_brought, status = self._ends.get(timeout=_STOP_CHECK_S)
                break
            if waits * _STOP_CHECK_S >= _PATIENCE_S:
                self._cancel()
        source, _ = self._open.pop(place)
        self._bytes -= source.size
        if is_brought:
            self.moving.advance(source.size)
            return
        self.is_in_trouble = self.is_in_trouble or status is None
        yield place, source

    def close(self) -> None:
        """Cancel what is under way, and wait until no file is written any more."""
        self._cancel()
        while self._open:
            self._open.pop(self._ends.get()[0])

    def _cancel(self) -> None:
        for _, request in self._open.values():
            request.cancel()


def _trusting_as_boto3() -> "TlsConnectionOptions":
    from awscrt import io  # noqa: PLC0415 - as above

    options = io.TlsContextOptions()
    bundle = os.environ.get("AWS_CA_BUNDLE") or get_cert_path(True)
    options.override_default_trust_store_from_path(ca_filepath=bundle)
    return io.ClientTlsContext(options).new_connection_options()
