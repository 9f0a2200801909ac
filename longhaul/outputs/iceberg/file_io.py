"""Iceberg's metadata on S3, through boto3: pyiceberg's own ways need pyarrow or s3fs.

Metadata files and manifests are small, so each is read and written whole.
"""

from io import BytesIO
from types import TracebackType
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from longhaul.core.aws_errors import code_of
from longhaul.core.objects import content_of
from longhaul.outputs.iceberg.unpacked_size import MAX_BYTES, require_small, too_large

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class BotoFileIO(FileIO):
    def __init__(self, client: "S3Client", *, is_bounded: bool = True) -> None:
        """`is_bounded`: read nothing that takes more memory than a function has."""
        super().__init__()
        self._s3 = client
        self._is_bounded = is_bounded

    def new_input(self, location: str) -> InputFile:
        return _Object(self._s3, location, is_bounded=self._is_bounded)

    def new_output(self, location: str) -> OutputFile:
        return _Object(self._s3, location, is_bounded=self._is_bounded)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refuse: what a commit wrote may be in use, whatever its answer was."""
        raise NotImplementedError(f"{location} is not deleted")


class _Object(InputFile, OutputFile):
    def __init__(self, client: "S3Client", location: str, *, is_bounded: bool) -> None:
        super().__init__(location)
        self._s3 = client
        self._is_bounded = is_bounded
        self._bucket, _, self._key = location.partition("://")[2].partition("/")

    def __len__(self) -> int:
        return self._s3.head_object(Bucket=self._bucket, Key=self._key)["ContentLength"]

    def exists(self) -> bool:
        try:
            self._s3.head_object(Bucket=self._bucket, Key=self._key)
        except ClientError as error:
            if code_of(error) in ("404", "NoSuchKey"):
                return False
            raise
        return True

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002, FBT001, FBT002 - pyiceberg's signature
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=self._key)
        except ClientError as error:
            if code_of(error) == "NoSuchKey":
                raise FileNotFoundError(self.location) from error
            raise
        if not self._is_bounded:
            return BytesIO(answer["Body"].read())
        body = content_of(answer, MAX_BYTES)
        if body is None:
            raise too_large(self.location)
        require_small(self.location, body)
        return BytesIO(body)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002, FBT001, FBT002 - names are unique
        return _Upload(self._s3, self._bucket, self._key)

    def to_input_file(self) -> InputFile:
        return self


class _Upload(BytesIO):
    """Put when it is closed, and not when its writer raised: never half of it."""

    def __init__(self, client: "S3Client", bucket: str, key: str) -> None:
        super().__init__()
        self._s3, self._bucket, self._key = client, bucket, key

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            super().close()
        else:
            self.close()

    def close(self) -> None:
        if not self.closed:
            body = self.getvalue()
            # First: Python closes a stream that it collects, and a put that failed must not be
            # made again then.
            super().close()
            self._s3.put_object(Bucket=self._bucket, Key=self._key, Body=body)
