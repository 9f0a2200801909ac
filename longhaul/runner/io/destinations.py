"""Where an output goes: a prefix with a manifest, or tables.

Room is asked for before any work, and again right before the commit. If another job publishes even
after that, the manifest's conditional PUT decides: an output that must not become visible is void,
the job runs again, and this check fails it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from botocore.exceptions import ClientError

from longhaul.core.aws_errors import code_of
from longhaul.core.errors import PermanentJobError
from longhaul.core.lease import AttemptId
from longhaul.core.places import DataPath, TableInput, TablePath, is_table
from longhaul.core.policy import require_writable
from longhaul.core.request import JobRequest
from longhaul.core.settings import Mode, Stage
from longhaul.outputs.manifest import MANIFEST, Manifest
from longhaul.outputs.publisher import read_manifest
from longhaul.runner.io.listing import InputListing, is_foreign
from longhaul.runner.io.uploader import Uploader, UploadPlan
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

    def require_room(self) -> None:
        """Return if the output may go there.

        Raises:
            PermanentJobError: mode `error`, and something is there; or another mode, and there are
                files that no manifest of ours lists. A manifest beside them would hide them.
        """
        if self.mode == "error":
            for name in self._files():
                # A void commit of this job may have left files.
                if self.attempt.key_hash not in name:
                    raise PermanentJobError(
                        f"output: mode is error, and {self.path} holds {name}: name another output;"
                        " one of Longhaul can be replaced or added to (modes overwrite and append)"
                    )
            return
        if self._manifest() is not None:
            return
        foreign = next(
            (name for name in self._files() if name == MANIFEST or is_foreign(name)), None
        )
        # Again: another job may have published the first manifest since.
        if foreign and self._manifest() is None:
            raise PermanentJobError(
                f"output: {self.path} holds {foreign}, and no manifest of Longhaul that says what"
                " belongs to it. An output beside it would hide it from readers: name another"
                " output, or move away what is there"
            )

    def _manifest(self) -> Manifest | None:
        return read_manifest(self.s3, self.path.bucket, self.path.key)[0]

    def _files(self) -> Iterator[str]:
        """Names below the output, without the placeholders of folders."""
        try:
            for page in self.s3.get_paginator("list_objects_v2").paginate(
                Bucket=self.path.bucket, Prefix=self.path.key
            ):
                for item in page.get("Contents", []):
                    if not item["Key"].endswith("/"):
                        yield item["Key"].removeprefix(self.path.key)
        except ClientError as error:
            if code_of(error) == "NoSuchBucket":
                raise PermanentJobError(f"output: there is no bucket {self.path.bucket}") from error
            raise

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
