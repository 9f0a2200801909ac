"""Where an output goes: a prefix with a manifest, or tables.

Room is asked for before any work, and again right before the commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from longhaul.domain.lease import AttemptId
from longhaul.domain.paths import DataPath
from longhaul.runner.io.existing import require_room
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.uploader import Uploader, UploadPlan
from longhaul.runner.io.written import Dataset
from longhaul.settings import Mode

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from longhaul.runner.io.table_destination import TableDestination


class Destination(Protocol):
    @property
    def table(self) -> "TableDestination | None":
        """Itself, if the output goes to tables: then the job writes their files."""

    def require_room(self) -> None:
        """Return if the output may go there.

        Raises:
            PermanentJobError: something is in its way; the message says what.
        """

    def plan(
        self, uploader: Uploader, datasets: Sequence[Dataset], read: InputListing
    ) -> UploadPlan:
        """What to upload of what the job wrote.

        `read` knows the versions of the job's inputs: it may overwrite one of them.
        """


@dataclass(frozen=True)
class PrefixDestination:
    s3: "S3Client"
    path: DataPath
    mode: Mode
    attempt: AttemptId
    table: None = None

    def require_room(self) -> None:
        require_room(self.s3, self.path, self.mode, self.attempt)

    def plan(
        self, uploader: Uploader, datasets: Sequence[Dataset], read: InputListing
    ) -> UploadPlan:
        place = str(self.path)
        return uploader.plan(self.attempt, place, datasets, self.mode, read.manifests.get(place))
