"""What is there already where an output is to go, and whether the request's mode lets it be.

Looked at before any work, and once more right before the commit. Should another job come in between even then, the manifest's conditional PUT decides: an
output that must not become visible is void, the job runs again, and finds here what is in its way.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from jobs.io.listing import is_hidden
from longhaul.adapters.s3_publisher import read_manifest
from longhaul.domain.errors import PermanentJobError
from longhaul.domain.lease import AttemptId
from longhaul.domain.manifest import MANIFEST
from longhaul.domain.paths import DataPath
from longhaul.domain.request import Mode

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# An attempt's token in a file's name: such files belong to the manifests that name them, or to a publication on its way.
_TOKEN: Final = re.compile(r"-[0-9a-f]{20}-\d+-\d+")


def require_room(client: "S3Client", output: DataPath, mode: Mode, attempt: AttemptId) -> None:
    """Let the output pass, or say what is in its way.

    Raises:
        PermanentJobError: mode `error`, and something is there; or `append`, and there are files that no manifest of ours lists.
    """
    if mode == "error":
        for name in _files(client, output):
            if attempt.key_hash not in name:  # left by an attempt of this job whose commit was void
                raise PermanentJobError(
                    f"output: mode is error, and {output} holds {name}: name another output, or choose overwrite or append"
                )
    if mode == "append" and not _has_manifest(client, output):
        foreign = next((name for name in _files(client, output) if _is_foreign(name)), None)
        # Looked for once more: another job that appends may have published the first manifest between our two looks.
        if foreign is not None and not _has_manifest(client, output):
            raise PermanentJobError(
                f"output: mode is append, and {output} holds {foreign}, but no manifest of Longhaul that would say what belongs to it: "
                "name another output, or choose overwrite"
            )


def _has_manifest(client: "S3Client", output: DataPath) -> bool:
    return read_manifest(client, output.bucket, output.key)[0] is not None


def _is_foreign(name: str) -> bool:
    """Whether the file speaks for an output that is not ours: one with data that no attempt wrote, or its marker."""
    return name == MANIFEST or not (_TOKEN.search(name) or any(map(is_hidden, name.split("/"))))


def _files(client: "S3Client", output: DataPath) -> Iterator[str]:
    """Names below the output, folders' placeholders left out."""
    try:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=output.bucket, Prefix=output.key):
            for item in page.get("Contents", []):
                if not item["Key"].endswith("/"):
                    yield item["Key"].removeprefix(output.key)
    except ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchBucket":
            raise PermanentJobError(f"output: there is no bucket {output.bucket}") from error
        raise
