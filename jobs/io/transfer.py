"""What every way of staging does: move many objects at once, stop when told to, and look again when an input changes under it."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, TypeVar

from boto3.s3.transfer import TransferConfig, create_transfer_manager
from botocore.exceptions import ClientError
from s3transfer.subscribers import BaseSubscriber

from jobs.io.listing import Source
from jobs.stopping import Stop
from longhaul.domain.errors import LonghaulError, PermanentJobError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from s3transfer.futures import TransferFuture
    from s3transfer.manager import TransferManager

T = TypeVar("T")
PlaceT = TypeVar("PlaceT")

logger = logging.getLogger(__name__)


class InputChangingError(LonghaulError):
    """Somebody replaces an input faster than it can be read. No reason to give the job up: it fails, and is tried again."""


class VanishedError(Exception):
    """An object that was listed is not there."""


def look_twice(first: Callable[[], T], again: Callable[[], T]) -> T:
    """What `first` answers, or, when objects vanished under it, `again`: our outputs are replaced, and the manifest that is in place then names files that are there.

    Raises:
        InputChangingError: they vanished under both; the next attempt may have better luck.
    """
    try:
        return first()
    except VanishedError as error:
        logger.info("an input changed while it was read: reading it once more", extra={"file": str(error)})
    try:
        return again()
    except VanishedError as error:
        raise InputChangingError(f"an input keeps changing while it is read: {error} is gone") from error


def transfer(
    client: "S3Client",
    config: TransferConfig,
    places: Mapping[PlaceT, Source],
    begin: "Callable[[TransferManager, Source, PlaceT, list[BaseSubscriber]], TransferFuture]",
    *,
    stop: Stop,
    advance: Callable[[int], None],
) -> None:
    """Move each source to its place, as many at once as `config` says; `begin` starts one.

    Raises:
        VanishedError: a source is gone.
        PermanentJobError: a source is archived.
        StopRequestedError: the attempt has to stop.
    """
    subscribers: list[BaseSubscriber] = [_Advance(advance, stop)]
    try:
        with create_transfer_manager(client, config) as manager:
            futures = [begin(manager, source, place, subscribers) for place, source in places.items()]
            for source, future in zip(places.values(), futures, strict=True):
                try:
                    future.result()
                except ClientError as error:
                    raise _translated(error, source) from error
    except CancelledError:
        stop.check()
        raise


def _translated(error: ClientError, source: Source) -> Exception:
    """What a refused transfer means; the error itself where another try may help."""
    match error.response["Error"]["Code"]:
        case "404" | "NoSuchKey":
            return VanishedError(f"s3://{source.bucket}/{source.key}")
        case "InvalidObjectState":
            return PermanentJobError(
                f"s3://{source.bucket}/{source.key} is archived: restore it, or leave it out, and send the job again"
            )
    return error


class _Advance(BaseSubscriber):
    """Told of each chunk by s3transfer's threads; an exception raised here fails the transfer, which is how a stop reaches it."""

    def __init__(self, advance: Callable[[int], None], stop: Stop) -> None:
        self._advance_by = advance
        self._stop = stop

    def on_progress(self, future: "TransferFuture", bytes_transferred: int, **_: object) -> None:  # noqa: ARG002 - its caller names it
        self._advance_by(bytes_transferred)
        self._stop.check()
