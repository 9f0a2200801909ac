"""A job's code from S3: one file, read under the task's role, put into the task's scratch space and nowhere else."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from longhaul.domain.errors import PermanentJobError
from longhaul.domain.paths import DataPath

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Code that people write is a few KB. What is larger is a mistake, such as a path to data.
MAX_CODE_BYTES: Final = 1024 * 1024
_NOT_THERE: Final = {"NoSuchKey", "NoSuchBucket", "404"}
_NOT_OURS: Final = {"AccessDenied", "403"}


def fetch_code(client: "S3Client", path: DataPath, folder: Path) -> Path:
    """Download the file into `folder`, under its own name.

    Raises:
        PermanentJobError: it is not there, too large, or not to be read by this task.
    """
    try:
        answer = client.get_object(Bucket=path.bucket, Key=path.key)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in _NOT_THERE:
            raise PermanentJobError(f"job: nothing at {path}") from error
        if code in _NOT_OURS:
            raise PermanentJobError(f"job: {path} is not there, or the task's role may not read it") from error
        raise
    if answer["ContentLength"] > MAX_CODE_BYTES:
        raise PermanentJobError(
            f"job: {path} has {answer['ContentLength']} bytes, more than the {MAX_CODE_BYTES} that a job's code may have"
        )
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / path.key.rpartition("/")[2]
    file.write_bytes(answer["Body"].read())
    return file
