"""Whether the request's mode allows what is at the place of its output already.

Checked before any work, and again right before the commit. If another job publishes even after
that, the manifest's conditional PUT decides: an output that must not become visible is void, the
job runs again, and this check fails it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from longhaul.core.aws_errors import code_of
from longhaul.core.errors import PermanentJobError
from longhaul.core.lease import AttemptId
from longhaul.core.places import DataPath
from longhaul.core.settings import Mode
from longhaul.outputs.manifest import MANIFEST, Manifest
from longhaul.outputs.publisher import read_manifest
from longhaul.runner.io.listing import is_foreign

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def require_room(
    client: "S3Client", output: DataPath, mode: Mode, attempt: AttemptId
) -> Manifest | None:
    """The manifest that is there, if the output may go there, or say what is in its way.

    Raises:
        PermanentJobError: mode `error`, and something is there; or another mode, and there are
            files that no manifest of ours lists. A manifest beside them would hide them.
    """
    if mode == "error":
        for name in _files(client, output):
            # A void commit of this job may have left files.
            if attempt.key_hash not in name:
                raise PermanentJobError(
                    f"output: mode is error, and {output} holds {name}: name another output; one of"
                    " Longhaul can be replaced or added to (modes overwrite and append)"
                )
        return None
    if (manifest := _manifest_at(client, output)) is not None:
        return manifest
    foreign = next(
        (name for name in _files(client, output) if name == MANIFEST or is_foreign(name)), None
    )
    if foreign is None:
        return None
    # Again: another job may have published the first manifest since.
    if (manifest := _manifest_at(client, output)) is None:
        raise PermanentJobError(
            f"output: {output} holds {foreign}, and no manifest of Longhaul that says what"
            " belongs to it. An output beside it would hide it from readers: name another"
            " output, or move away what is there"
        )
    return manifest


def _manifest_at(client: "S3Client", output: DataPath) -> Manifest | None:
    return read_manifest(client, output.bucket, output.key)[0]


def _files(client: "S3Client", output: DataPath) -> Iterator[str]:
    """Names below the output, without the placeholders of folders."""
    try:
        for page in client.get_paginator("list_objects_v2").paginate(
            Bucket=output.bucket, Prefix=output.key
        ):
            for item in page.get("Contents", []):
                if not item["Key"].endswith("/"):
                    yield item["Key"].removeprefix(output.key)
    except ClientError as error:
        if code_of(error) == "NoSuchBucket":
            raise PermanentJobError(f"output: there is no bucket {output.bucket}") from error
        raise
