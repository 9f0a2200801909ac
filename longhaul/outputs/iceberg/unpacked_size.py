"""What a file of Iceberg's takes once it is unpacked, looked at before pyiceberg reads it.

A job's code can write such files, and pyiceberg unpacks them whole: a megabyte may hold gigabytes.
"""

import gzip
import zlib
from io import BytesIO
from typing import Final

from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.resolver import construct_reader

from longhaul.core.errors import TooLargeError
from longhaul.core.objects import is_readable
from longhaul.outputs.manifest import MAX_FILES

MAX_BYTES: Final = 28 * 2**20
"""Of one file, unpacked: a manifest of 100,000 files with two columns has 27 MiB.

Forged counts by column take up to 27 times their bytes in memory.
"""


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
