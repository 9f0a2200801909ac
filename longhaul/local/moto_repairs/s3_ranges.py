"""A part of an object is read without the rest of it.

AWS: GetObject with a Range reads that range.

Stock moto: it reads the whole object into memory and cuts the range out. A client that reads a
large file in many parts at once, as boto3 does, makes it copy the file for each of them.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

import re
from typing import Any, Final

from moto.s3.responses import S3Response

from longhaul.local.moto_repairs.patching import Patches

_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")


class _InParts:
    """A key whose value is read when a slice of it is asked for."""

    def __init__(self, key: Any) -> None:
        self._key = key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._key, name)

    @property
    def value(self) -> "_InParts":
        return self

    def __len__(self) -> int:
        return int(self._key.size)

    def __getitem__(self, part: slice) -> bytes:
        begin, end, _ = part.indices(len(self))
        with self._key.lock:
            self._key._value_buffer.seek(begin)
            return bytes(self._key._value_buffer.read(end - begin))


def apply(patches: Patches) -> None:
    stock = S3Response.get_object

    def get_object(response: Any) -> Any:
        if _is_range(response.headers.get("range") or ""):
            key, not_modified = response._get_key()
            if key.size:
                response._get_key = lambda: (_InParts(key), not_modified)
        return stock(response)

    patches.replace(S3Response, "get_object", get_object)


def _is_range(header: str) -> bool:
    """Whether moto answers it with one slice of an object that is not empty."""
    match = _RANGE.fullmatch(header)
    if match is None or match[0] == "bytes=-":
        return False
    return not (match[1] and match[2]) or int(match[1]) <= int(match[2])
