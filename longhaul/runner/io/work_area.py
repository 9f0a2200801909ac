"""Where an attempt works before it publishes.

That is the task's own disk, or a hidden prefix of the data bucket that a whole cluster reaches. The
scheme of a URI says which.
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from longhaul.core.lease import AttemptId, folder_name
from longhaul.core.objects import delete_keys
from longhaul.core.places import DataPath, InputPath
from longhaul.core.settings import SizeName
from longhaul.runner.io.cluster_staging import stage_for_cluster
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.saved_files import BucketFiles, DiskFiles, S3Objects, SavedFiles
from longhaul.runner.io.small_objects import SmallObjects
from longhaul.runner.io.staged import StagedInput
from longhaul.runner.io.staging import Stager
from longhaul.runner.io.written import Folder, S3Folder
from longhaul.runner.stopping import Stop

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class WorkArea(Protocol):
    @property
    def output(self) -> Folder:
        """Files below it are published when the job has succeeded."""

    def stage(
        self,
        listing: InputListing,
        inputs: Mapping[str, InputPath],
        stop: Stop,
        *,
        begin: Callable[[int], None],
        advance: Callable[[int], None],
    ) -> Mapping[str, StagedInput]:
        """List the inputs, and bring them to where the job reads them.

        `begin` gets the bytes to move, `advance` the bytes that were moved.
        """

    def saved_files(self, objects: S3Objects) -> SavedFiles:
        """Where the job's attempts store data frames for one another."""

    def clear(self) -> None:
        """Delete it.

        Raises:
            NotDeletedError: S3 has kept some of it.
        """


class DiskArea:
    """A folder on the machine's disk, or on one that all machines of the cluster share."""

    def __init__(
        self,
        client: "S3Client",
        folder: Path,
        disk_gib: Mapping[SizeName, int],
        small: SmallObjects | None = None,
    ) -> None:
        """`disk_gib` is the disk of each size: inputs that fit none are refused.

        `small` brings many small objects; None: `client` brings these too.
        """
        self._s3 = client
        self._folder = folder
        self._disk_gib = disk_gib
        self._small = small
        self.output: Folder = folder / "output"

    def stage(
        self,
        listing: InputListing,
        inputs: Mapping[str, InputPath],
        stop: Stop,
        *,
        begin: Callable[[int], None],
        advance: Callable[[int], None],
    ) -> Mapping[str, StagedInput]:
        return Stager(
            self._s3,
            listing,
            self._folder / "inputs",
            stop,
            disk_gib=self._disk_gib,
            begin=begin,
            advance=advance,
            small=self._small,
        ).stage(inputs)

    def saved_files(self, objects: S3Objects) -> SavedFiles:
        return DiskFiles(objects, self._folder / "saved")

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class BucketArea:
    """A prefix of the data bucket for this attempt alone; no input can be below it."""

    def __init__(self, client: "S3Client", prefix: str, attempt: AttemptId) -> None:
        self._s3 = client
        place = DataPath.on_s3(prefix)
        bucket, key = place.bucket, place.key
        self._folder = S3Folder(
            bucket, f"{key}{folder_name(attempt.key)}/{attempt.run}-{attempt.attempt}/"
        )
        self.output: Folder = self._folder / "output"

    def stage(
        self,
        listing: InputListing,
        inputs: Mapping[str, InputPath],
        stop: Stop,
        *,
        begin: Callable[[int], None],
        advance: Callable[[int], None],
    ) -> Mapping[str, StagedInput]:
        folder = self._folder / "inputs"
        return stage_for_cluster(
            self._s3, listing, folder, inputs, stop, begin=begin, advance=advance
        )

    def saved_files(self, objects: S3Objects) -> SavedFiles:
        return BucketFiles(self._s3, objects.bucket, objects.prefix)

    def clear(self) -> None:
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._folder.bucket,
            Prefix=self._folder.prefix,
        )
        for page in pages:
            names = [item["Key"] for item in page.get("Contents", [])]
            delete_keys(self._s3, self._folder.bucket, names)


def area_at(uri: str, client: "S3Client", attempt: AttemptId, disk: DiskArea) -> WorkArea:
    """An attempt's work area on a cluster: below an `s3://` URI, or for `file:` the shared disk."""
    return BucketArea(client, uri, attempt) if uri.startswith("s3://") else disk
