"""Where an attempt works before anything of it is published: the task's own disk, or a hidden prefix that a whole cluster reaches.

Which of them is said by the scheme of a URI, and nothing else asks.
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from jobs.io.cluster_staging import ClusterStager
from jobs.io.listing import Listing
from jobs.io.staging import StagedInput, Stager
from jobs.io.written import Folder, S3Folder
from jobs.stopping import Stop
from longhaul.adapters.s3_publisher import split_prefix
from longhaul.domain.lease import AttemptId
from longhaul.domain.paths import DataPath
from longhaul.settings import SizeName

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_DELETE_BATCH: Final = 1_000  # DeleteObjects' limit


class WorkArea(Protocol):
    @property
    def output(self) -> Folder:
        """What a job writes below it is published when the job has succeeded."""

    def stage(
        self,
        listing: Listing,
        inputs: Mapping[str, DataPath],
        stop: Stop,
        *,
        begin: Callable[[int], None],
        advance: Callable[[int], None],
    ) -> Mapping[str, StagedInput]:
        """Make the inputs readable for Spark; `begin` is told the bytes to be moved for that, `advance` the bytes that were."""

    def clear(self) -> None:
        """Nothing of it is wanted any more."""


class DiskArea:
    """A folder of the one machine that the attempt runs on, or of a disk that the machines of its cluster share."""

    def __init__(self, client: "S3Client", folder: Path, disk_gib: Mapping[SizeName, int]) -> None:
        """`disk_gib` is each size's disk, to say which would do."""
        self._s3 = client
        self._folder = folder
        self._disk_gib = disk_gib
        self.output: Folder = folder / "output"

    def stage(
        self,
        listing: Listing,
        inputs: Mapping[str, DataPath],
        stop: Stop,
        *,
        begin: Callable[[int], None],
        advance: Callable[[int], None],
    ) -> Mapping[str, StagedInput]:
        return Stager(
            self._s3, listing, self._folder / "inputs", stop, disk_gib=self._disk_gib, begin=begin, advance=advance
        ).stage(inputs)

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class BucketArea:
    """A prefix of the data bucket that only this attempt writes to, and that no listing of inputs shows."""

    def __init__(self, client: "S3Client", prefix: str, attempt: AttemptId) -> None:
        self._s3 = client
        bucket, key = split_prefix(prefix)
        self._folder = S3Folder(bucket, f"{key}{attempt.key_hash}/{attempt.run}-{attempt.attempt}/")
        self.output: Folder = self._folder / "output"

    def stage(
        self,
        listing: Listing,
        inputs: Mapping[str, DataPath],
        stop: Stop,
        *,
        begin: Callable[[int], None],
        advance: Callable[[int], None],
    ) -> Mapping[str, StagedInput]:
        stager = ClusterStager(self._s3, listing, self._folder / "inputs", stop, begin=begin, advance=advance)
        return stager.stage(inputs)

    def clear(self) -> None:
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._folder.bucket, Prefix=self._folder.prefix, PaginationConfig={"PageSize": _DELETE_BATCH}
        )
        for page in pages:
            if keys := [{"Key": item["Key"]} for item in page.get("Contents", [])]:
                self._s3.delete_objects(Bucket=self._folder.bucket, Delete={"Objects": keys, "Quiet": True})  # type: ignore[typeddict-item]  # the stubs want their own dictionary


def area_at(uri: str, client: "S3Client", attempt: AttemptId, disk: DiskArea) -> WorkArea:
    """The work area of an attempt on a cluster: a prefix below an `s3://` URI, or for `file:` the disk that it shares."""
    return BucketArea(client, uri, attempt) if uri.startswith("s3://") else disk
