"""Multipart uploads of the S3 fake.

How S3 completes a multipart upload: at once, or slowly, as it does for large files.

A completion may take minutes. AWS does not say what another one of the same upload gets meanwhile,
so the fake can do each of what was seen or may be.
"""

import hashlib
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

from simulation.aws.service import Answer, RefusedError

Meanwhile = Literal["gone", "repeats", "waits"]
"""What another completion gets: NoSuchUpload; the same answer, with no object yet; or that later.

While it is `gone`, the upload is neither listed nor aborted.
"""


@dataclass(frozen=True)
class Completion:
    """`fails`: it ends with an InternalError, and the upload is pending again."""

    takes_s: float = 0.0
    meanwhile: Meanwhile = "gone"
    fails: bool = False

    @classmethod
    def of(cls, kind: str | None) -> "Completion":
        """The completion of a fault of a plan, such as `gone/40`; None is the usual one."""
        if kind is None:
            return AT_ONCE
        what, _, seconds = kind.partition("/")
        match what:
            case "gone" | "repeats" | "waits":
                return cls(float(seconds), what)
            case "fails":
                return cls(float(seconds), fails=True)
        raise ValueError(f"no such completion: {kind}")


AT_ONCE = Completion()

KINDS = ("gone/40", "gone/400", "repeats/40", "repeats/400", "waits/40", "waits/400", "fails/40")
"""Those of drawn worlds, with their seconds."""


@dataclass(frozen=True)
class Completing:
    """A completion that S3 works on."""

    how: Completion
    until: datetime
    body: bytes
    answer: Answer


_MAX_PARTS = 10_000
_MIN_PART_BYTES = 5 * 1024 * 1024
"""Of every part but the last."""


def content_of(body: Any) -> bytes:
    """The bytes of a Body argument: bytes, a string, or a file, which a second try sends again."""
    content = body
    if hasattr(body, "read"):
        begin = body.tell()
        content = body.read()
        body.seek(begin)
    return content.encode() if isinstance(content, str) else bytes(content)


def digest(content: bytes) -> bytes:
    return hashlib.md5(content, usedforsecurity=False).digest()


def crc32(content: bytes) -> str:
    return b64encode(zlib.crc32(content).to_bytes(4, "big")).decode()


@dataclass(frozen=True)
class Part:
    content: bytes
    digest: bytes
    crc32: str

    @property
    def etag(self) -> str:
        return f'"{self.digest.hex()}"'


@dataclass(eq=False)
class Upload:
    id: str
    key: str
    started_at: datetime
    metadata: Mapping[str, str]
    content_type: str
    has_checksums: bool
    parts: dict[int, Part] = field(default_factory=dict)
    completing: Completing | None = None

    @property
    def is_hidden(self) -> bool:
        return self.completing is not None and self.completing.how.meanwhile == "gone"

    def add(self, number: int, content: bytes) -> Answer:
        if not 1 <= number <= _MAX_PARTS:
            raise RefusedError(
                "InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive"
            )
        part = self.parts[number] = Part(content, digest(content), crc32(content))
        return {"ETag": part.etag, "ChecksumCRC32": part.crc32}

    def completed(self, named: Sequence[Mapping[str, Any]]) -> tuple[bytes, str]:
        """Content and ETag of the object.

        The request must name the parts in order with their ETags, and with their checksums if the
        upload was created with a checksum algorithm.
        """
        if not named:
            raise RefusedError("MalformedXML", "The XML you provided was not well-formed")
        numbers = [each["PartNumber"] for each in named]
        if any(later <= earlier for earlier, later in pairwise(numbers)):
            raise RefusedError("InvalidPartOrder", "The list of parts was not in ascending order.")
        parts = [self._checked(each) for each in named]
        if any(len(part.content) < _MIN_PART_BYTES for part in parts[:-1]):
            raise RefusedError(
                "EntityTooSmall",
                "Your proposed upload is smaller than the minimum allowed object size.",
            )
        whole = digest(b"".join(part.digest for part in parts))
        return b"".join(part.content for part in parts), f'"{whole.hex()}-{len(parts)}"'

    def _checked(self, named: Mapping[str, Any]) -> Part:
        part = self.parts.get(named["PartNumber"])
        checksum = named.get("ChecksumCRC32")
        if self.has_checksums and checksum is None:
            raise RefusedError(
                "InvalidRequest",
                "The upload was created using a crc32 checksum. The complete request must include"
                " the checksum for each part. It was missing for part"
                f" {named['PartNumber']} in the request.",
            )
        if (
            part is None
            or part.etag.strip('"') != named["ETag"].strip('"')
            or checksum not in (None, part.crc32)
            # S3 keeps no checksums of the parts of an upload that was begun without an algorithm.
            or (checksum is not None and not self.has_checksums)
        ):
            raise RefusedError(
                "InvalidPart",
                "One or more of the specified parts could not be found. The part may not have been"
                " uploaded, or the specified entity tag may not match the part's entity tag.",
            )
        return part
