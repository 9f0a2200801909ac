"""What all staging does: move many objects at once, heed a stop, retry a changed input."""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from boto3.s3.transfer import TransferConfig, create_transfer_manager
from botocore.exceptions import ClientError, ResponseStreamingError
from s3transfer.exceptions import RetriesExceededError, S3DownloadFailedError
from s3transfer.subscribers import BaseSubscriber

from longhaul.core.aws_errors import code_of
from longhaul.core.errors import LonghaulError, PermanentJobError
from longhaul.runner.io.listing import NoInputError, Source
from longhaul.runner.stopping import Stop

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from s3transfer.futures import TransferFuture
    from s3transfer.manager import TransferManager

T = TypeVar("T")
PlaceT = TypeVar("PlaceT")

# What s3transfer holds of each transfer, some 7 KiB, stays until its result is asked for.
_AT_ONCE: Final = 1_000

logger = logging.getLogger(__name__)


def _uncounted(_size: int) -> None:
    """Of bytes that nothing counts."""


@dataclass(frozen=True)
class Moving:
    """Bytes that come or go: counted, and ended by a stop of the attempt.

    `begin` gets the bytes to move, `advance` the bytes that were moved.
    """

    stop: Stop
    begin: Callable[[int], None] = _uncounted
    advance: Callable[[int], None] = _uncounted


class InputChangingError(LonghaulError):
    """An input is replaced faster than it can be read. A later attempt may succeed."""


class VanishedError(Exception):
    """A listed object is not there any more, or another one has its place."""


def look_twice(look: Callable[[], T]) -> T:
    """The result of a look at the inputs, or of another if objects vanished meanwhile.

    Objects vanish when an output of ours is replaced. The new manifest names files that are there.

    Raises:
        InputChangingError: objects vanished under both, or all of an input.
    """
    try:
        return look()
    except VanishedError as error:
        logger.info(
            "an input changed while it was read: reading it once more", extra={"file": str(error)}
        )
    try:
        return look()
    except VanishedError as error:
        raise InputChangingError(
            f"an input keeps changing while it is read: {error} is gone"
        ) from error
    except NoInputError as error:
        # It was there: who replaces it may have deleted it first.
        raise InputChangingError(f"an input is gone while it is read: {error}") from error


def transfer(
    client: "S3Client",
    config: TransferConfig,
    places: Iterable[tuple[PlaceT, Source]],
    begin: "Callable[[TransferManager, Source, PlaceT, list[BaseSubscriber]], TransferFuture]",
    *,
    condition: str,
    moving: Moving,
) -> None:
    """Move each source to its place, many at once; `begin` starts one.

    `condition` is the argument by which S3 refuses an object with another ETag.

    Raises:
        VanishedError: a source is gone, or was replaced.
        PermanentJobError: a source is archived.
        StopRequestedError: the attempt has to stop.
    """
    watched = _Advance(moving)
    begun: deque[tuple[Source, TransferFuture]] = deque()
    try:
        with create_transfer_manager(client, config) as manager:
            for place, source in places:
                moving.stop.check()  # an empty object makes no progress
                if len(begun) == _AT_ONCE:
                    _finish(*begun.popleft())
                subscribers: list[BaseSubscriber] = [_Known(source, config, condition), watched]
                begun.append((source, begin(manager, source, place, subscribers)))
            while begun:
                _finish(*begun.popleft())
    except CancelledError:
        moving.stop.check()
        raise


def _finish(source: Source, future: "TransferFuture") -> None:
    place = f"s3://{source.bucket}/{source.key}"
    try:
        future.result()
    except S3DownloadFailedError as error:
        raise VanishedError(place) from error
    except RetriesExceededError as error:
        # Its own text does not say what failed, and its class not that the network did.
        raise ResponseStreamingError(error=error.last_exception) from error
    except ClientError as error:
        if code_of(error) in ("404", "NoSuchKey", "PreconditionFailed"):
            raise VanishedError(place) from error
        if code_of(error) == "InvalidObjectState":
            raise PermanentJobError(
                f"{place} is archived: restore it, or leave it out, and send the job again"
            ) from error
        raise  # another try may help


class _Known(BaseSubscriber):
    """Tells s3transfer what the listing says, so that it does not ask S3 about each file first.

    A large file is read in parts, which need its ETag to be parts of one object. For one without
    (of a manifest or a table), s3transfer asks. S3 refuses an object that was replaced since it was
    listed: of itself s3transfer asks for that only where it moves an object in parts.
    """

    def __init__(self, source: Source, config: TransferConfig, condition: str) -> None:
        self._source = source
        self._condition = condition
        self._is_enough = bool(source.etag) or source.size < config.multipart_threshold

    def on_queued(self, future: "TransferFuture", **_: object) -> None:
        if self._is_enough:
            future.meta.provide_transfer_size(self._source.size)
            future.meta.provide_object_etag(self._source.etag)
        call_args: Any = future.meta.call_args  # its stubs are wrong
        if self._source.etag:
            call_args.extra_args[self._condition] = self._source.etag


class _Advance(BaseSubscriber):
    """Called by s3transfer's threads for each chunk. A stop fails the transfer from here."""

    def __init__(self, moving: Moving) -> None:
        self._moving = moving

    def on_progress(self, future: "TransferFuture", bytes_transferred: int, **_: object) -> None:  # noqa: ARG002 - its caller names it
        self._moving.advance(bytes_transferred)
        self._moving.stop.check()
