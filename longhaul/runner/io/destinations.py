"""Where an output goes: a prefix with a manifest, or tables.

Room is asked for before any work, and again right before the commit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from longhaul.core.errors import PermanentJobError
from longhaul.core.lease import AttemptId
from longhaul.core.places import DataPath, TableInput, TablePath, is_table
from longhaul.core.policy import require_writable
from longhaul.core.request import JobRequest
from longhaul.core.settings import Mode, Stage
from longhaul.outputs.manifest import Manifest
from longhaul.runner.io.existing import require_room
from longhaul.runner.io.frame import WriteOptions
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.uploader import Uploader, UploadPlan, require_same_way
from longhaul.runner.io.written import Dataset, field_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from longhaul.outputs.iceberg.catalog import Tables
    from longhaul.runner.io.table_destination import TableDestination


@dataclass
class PrefixDestination:
    s3: "S3Client"
    path: DataPath
    mode: Mode
    attempt: AttemptId
    table: None = None  # of the other kind itself: then the job writes the files of tables
    _there: Manifest | None = field(default=None, init=False)

    def require_room(self) -> None:
        """Return if the output may go there.

        Raises:
            PermanentJobError: something is in its way; the message says what.
        """
        self._there = require_room(self.s3, self.path, self.mode, self.attempt)

    def require_addable(self, dataset: str, how: WriteOptions) -> None:
        """Return if files that are written so may become part of a dataset.

        Raises:
            PermanentJobError: it has files of another format, or in other partition folders.
        """
        if self.mode != "append" or self._there is None:
            return
        try:
            require_same_way(self._there, dataset, how)
        except PermanentJobError:
            self.require_room()  # another job may have replaced it since
            if self._there is not None:
                require_same_way(self._there, dataset, how)

    def plan(
        self, uploader: Uploader, datasets: Sequence[Dataset], read: InputListing
    ) -> UploadPlan:
        """What to upload of what the job wrote.

        `read` knows the versions of the job's inputs: it may overwrite one of them.
        """
        place = str(self.path)
        return uploader.plan(self.attempt, place, datasets, self.mode, read.manifests.get(place))


Destination: TypeAlias = "PrefixDestination | TableDestination"


def destinations_of(
    request: JobRequest,
    stage: Stage,
    attempt: AttemptId,
    s3: "S3Client",
    tables: "Callable[[], Tables] | None",
    *,
    again: bool = False,
) -> dict[str, Destination]:
    """Where each output goes, by its name; that of the main one is empty.

    `tables` is None on an engine that writes to prefixes alone. `again`: whether the job was run
    before.

    Raises:
        PermanentJobError: an output goes to a table there.
    """

    def destination(place: str, name: str) -> Destination:
        if not is_table(place):
            # A prefix has no partitions: it is overwritten whole.
            mode = "overwrite" if request.mode == "overwrite_partitions" else request.mode
            return PrefixDestination(s3, DataPath.prefix_of(place), mode, attempt)
        if tables is None:
            raise PermanentJobError(f"{field_of(name)}: this engine writes to prefixes alone")
        from longhaul.runner.io.table_destination import TableDestination  # noqa: PLC0415 - takes a third of a second

        return TableDestination(
            tables(),
            TablePath.of(place),
            request.mode,
            attempt,
            # The claim has checked the table. Only the job knows which others it writes beside it.
            lambda table: require_writable(table, stage),
            [TableInput.of(each) for each in request.inputs.values() if is_table(each)],
            again=again,
        )

    places = {"": request.output, **request.outputs}
    return {name: destination(place, name) for name, place in places.items()}
