"""Files of Iceberg's that a task wrote: what a function reads of them."""

import gzip
import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.serializers import FromInputFile

from longhaul.core.errors import TooLargeError
from longhaul.outputs.iceberg.file_io import MAX_BYTES, BotoFileIO, require_small
from longhaul.outputs.manifest import MAX_FILES

AVRO, JSON, GZIPPED = "s3://b/m.avro", "s3://b/v1.metadata.json", "s3://b/v1.gz.metadata.json"


def avro(*blocks: tuple[int, bytes], codec: str = "deflate") -> bytes:
    """A container of blocks, each with a number of records and the bytes of them."""
    out = BytesIO()
    encoder = BinaryEncoder(out)
    encoder.write(b"Obj\x01")
    meta = {"avro.schema": json.dumps({"type": "record", "name": "r", "fields": []})}
    meta["avro.codec"] = codec
    encoder.write_int(len(meta))
    for name, value in meta.items():
        encoder.write_utf8(name)
        encoder.write_utf8(value)
    encoder.write_int(0)
    encoder.write(b"s" * 16)
    packer = KNOWN_CODECS[codec]  # type: ignore[index]
    for records, content in blocks:
        encoder.write_int(records)
        encoder.write_bytes(packer.compress(content)[0] if packer else content)
        encoder.write(b"s" * 16)
    return out.getvalue()


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_a_manifest_is_read_up_to_its_limit_unpacked(codec: str) -> None:
    half = MAX_BYTES // 2
    require_small(AVRO, avro((1, bytes(half)), (1, bytes(half)), codec=codec))

    with pytest.raises(TooLargeError, match=r"29,360,128 bytes unpacked"):
        require_small(AVRO, avro((1, bytes(half)), (1, bytes(half + 1)), codec=codec))


def test_a_manifest_of_more_entries_than_two_outputs_have_is_not_read() -> None:
    require_small(AVRO, avro((2 * MAX_FILES, b"")))

    with pytest.raises(TooLargeError):
        require_small(AVRO, avro((MAX_FILES, b""), (MAX_FILES + 1, b"")))


def of_spaces(most: int) -> bytes:
    return b"[" + b" " * (most - 2) + b"]"


@pytest.mark.parametrize(
    ("location", "pack"), [(JSON, bytes), (GZIPPED, gzip.compress)], ids=["plain", "gzip"]
)
def test_metadata_is_read_up_to_its_limit_unpacked(
    location: str, pack: Callable[[bytes], bytes]
) -> None:
    require_small(location, pack(of_spaces(MAX_BYTES)))

    for text in (of_spaces(MAX_BYTES + 1), b"[" + b"{}," * 2_000_000 + b"{}]"):
        with pytest.raises(TooLargeError):
            require_small(location, pack(text))


class S3:
    """One object, whatever is asked for."""

    def __init__(self, body: bytes) -> None:
        self.body = BytesIO(body)
        self.size = len(body)

    def get_object(self, **_: Any) -> Any:
        return {"ContentLength": self.size, "Body": self.body}


def test_pyiceberg_gets_no_file_that_is_too_large_unpacked() -> None:
    s3 = S3(gzip.compress(of_spaces(MAX_BYTES + 1)))
    files = BotoFileIO(s3)  # type: ignore[arg-type]

    with pytest.raises(TooLargeError):
        FromInputFile.table_metadata(files.new_input(GZIPPED))


def test_a_task_reads_a_file_of_any_size() -> None:
    body = gzip.compress(of_spaces(MAX_BYTES + 1))

    files = BotoFileIO(S3(body), is_bounded=False)  # type: ignore[arg-type]
    assert files.new_input(GZIPPED).open().read() == body
