"""Iceberg's metadata on S3, through boto3: pyiceberg's own ways need pyarrow or s3fs.

Metadata files and manifests are small, so each is read and written whole. A function looks first
at what one takes once it is unpacked: a job's code can write such files, pyiceberg unpacks them
whole, and a megabyte may hold gigabytes.
"""

import gzip
import zlib
from io import BytesIO
from types import TracebackType
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError
from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from longhaul.core.aws_errors import code_of
from longhaul.core.errors import TooLargeError
from longhaul.core.objects import content_of, is_readable
from longhaul.outputs.manifest import MAX_FILES

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


MAX_BYTES: Final = 28 * 2**20
"""Of one file, unpacked: a manifest of 100,000 files with two columns has 27 MiB.

Forged counts by column take up to 27 times their bytes in memory.
"""


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


def require_small(location: str, body: bytes) -> None:
    """Raise TooLargeError for a file that a function cannot read.

    Raises:
        ValueError, EOFError, OSError, zlib.error: it is no such file, as pyiceberg would find.
    """
    if location.endswith(".avro"):
        _require_small_avro(location, body)
        return
    if location.endswith(".gz.metadata.json"):
        with gzip.open(BytesIO(body)) as unpacked:
            body = unpacked.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES or not is_readable(body):
        raise too_large(location)


def _require_small_avro(location: str, body: bytes) -> None:
    decoder = new_decoder(body)
    header = construct_reader(META_SCHEMA, {-1: AvroFileHeader}).read(decoder)
    codec = header.meta.get(AVRO_CODEC_KEY, "null")
    size = records = 0
    while decoder.tell() < len(body):
        records += decoder.read_int()
        size += _unpacked_size(decoder.read_bytes(), codec, MAX_BYTES - size)
        decoder.skip(SYNC_SIZE)
        # Records too: they may have no bytes at all.
        if size > MAX_BYTES or records > 2 * MAX_FILES:
            raise too_large(location)


def _unpacked_size(block: bytes, codec: str, most: int) -> int:
    """Bytes of a block; more than `most` where it has more, and how many more is not told."""
    match codec:
        case "null":
            return len(block)
        case "deflate":
            return len(zlib.decompressobj(-zlib.MAX_WBITS).decompress(block, most + 1))
        case "zstandard":
            from zstandard import ZstdDecompressor  # noqa: PLC0415 - few tables have it

            with ZstdDecompressor().stream_reader(BytesIO(block)) as reader:
                return len(reader.read(most + 1))
    # pyiceberg knows bzip2 and snappy, too: Iceberg writes no bzip2, and a function has no snappy.
    raise ValueError(f"a function reads no avro file with the codec {codec}")


def too_large(location: str) -> TooLargeError:
    """The error about that file."""
    return TooLargeError(
        f"{location} has more than {MAX_BYTES:,} bytes unpacked, or more than {2 * MAX_FILES:,}"
        " files: a function cannot read it. Rewrite the table's manifests into smaller ones"
    )
