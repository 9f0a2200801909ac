"""Where an attempt works before it publishes.

That is the task's own disk, or a hidden prefix of the data bucket that a whole cluster reaches. The
scheme of a URI says which.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from longhaul.core.lease import AttemptId
from longhaul.core.places import InputPath
from longhaul.runner.io.bucket_area import BucketArea
from longhaul.runner.io.disk_area import DiskArea
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.saved_files import S3Objects, SavedFiles
from longhaul.runner.io.staged import StagedInput
from longhaul.runner.io.transfer import Moving
from longhaul.runner.io.written import Folder

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class WorkArea(Protocol):
    @property
    def output(self) -> Folder:
        """Files below it are published when the job has succeeded."""

    def stage(
        self, listing: InputListing, inputs: Mapping[str, InputPath], moving: Moving
    ) -> Mapping[str, StagedInput]:
        """List the inputs, and bring them to where the job reads them."""

    def saved_files(self, objects: S3Objects) -> SavedFiles:
        """Where the job's attempts store data frames for one another."""

    def clear(self) -> None:
        """Delete it.

        Raises:
            NotDeletedError: S3 has kept some of it.
        """


def area_at(uri: str, client: "S3Client", attempt: AttemptId, disk: DiskArea) -> WorkArea:
    """An attempt's work area on a cluster: below an `s3://` URI, or for `file:` the shared disk."""
    return BucketArea.at(uri, client, attempt) if uri.startswith("s3://") else disk
