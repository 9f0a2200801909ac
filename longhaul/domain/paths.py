"""Where a request may read and write: `s3://bucket/key` in allowed buckets, `file:` only where the settings say so."""

from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from longhaul.settings import PathPolicy

INTERNAL_PREFIX = "longhaul/"
"""Requests and pending outputs live under this prefix of the data bucket; no request may name it."""

_MAX_KEY_BYTES = 1024 - 256  # S3's limit less what the publisher appends (file name with key hash, run, attempt)


@dataclass(frozen=True)
class DataPath:
    """A parsed path. `bucket` is empty for `file:` paths, whose `key` is the absolute path."""

    scheme: Literal["s3", "file"]
    bucket: str
    key: str

    def __str__(self) -> str:
        return f"file://{self.key}" if self.scheme == "file" else f"s3://{self.bucket}/{self.key}"


def parse_input(text: str, policy: PathPolicy) -> DataPath:
    """The path of an input: an object, a prefix or a glob.

    Raises:
        ValueError: malformed, escaping, or outside the allowed buckets; the message says which, for people.
    """
    return _parse(text, policy, allowed=(policy.data_bucket, *policy.input_buckets, *policy.output_buckets))


def parse_output(text: str, policy: PathPolicy) -> DataPath:
    """The path prefix of an output; its key ends with a slash.

    Raises:
        ValueError: as `parse_input`; also for a bucket's root and for glob characters.
    """
    path = _parse(text, policy, allowed=(policy.data_bucket, *policy.output_buckets))
    if path.scheme != "s3":
        raise ValueError("an output is published on S3: s3://bucket/…; file: paths serve for inputs only")
    if any(c in path.key for c in "*?["):
        raise ValueError("an output is one prefix: no glob characters (* ? [)")
    if not path.key.strip("/"):
        raise ValueError("an output needs a prefix of its own, not the root")
    return DataPath(path.scheme, path.bucket, path.key.rstrip("/") + "/")


def parse_job(text: str, policy: PathPolicy) -> DataPath:
    """The path of a job's code: one Python file under an allowed prefix.

    Raises:
        ValueError: as `parse_input`; also for code from outside the allowed prefixes, and for anything while there are none.
    """
    if not policy.job_prefixes:
        raise ValueError(
            "code from S3 is not allowed here: the setting job_prefixes would name the places it may come from"
        )
    if not text.startswith(policy.job_prefixes):
        raise ValueError(f"not under a prefix that code may come from: {', '.join(policy.job_prefixes)}")
    path = _parse(text, policy, allowed=tuple(prefix.split("/")[2] for prefix in policy.job_prefixes))
    if not path.key.endswith(".py") or any(c in path.key for c in "*?["):
        raise ValueError("must be one Python file: s3://…/name.py")
    return path


def _parse(text: str, policy: PathPolicy, allowed: tuple[str, ...]) -> DataPath:
    if any(ord(c) < ord(" ") or ord(c) == 0x7F for c in text):  # noqa: PLR2004 - DEL
        raise ValueError("has control characters")
    scheme, separator, rest = text.partition(":")
    if scheme == "s3" and rest.startswith("//"):
        bucket, _, key = rest[2:].partition("/")
        if bucket not in allowed:
            raise ValueError(f"bucket {bucket[:63]!r} is not allowed; allowed: {', '.join(dict.fromkeys(allowed))}")
        path = DataPath("s3", bucket, key)
    elif scheme == "file" and policy.allow_file and separator:
        path = DataPath("file", "", "/" + unquote(rest).lstrip("/"))
    else:
        raise ValueError(f"must be s3://bucket/…{' or file:///…' if policy.allow_file else ''}")
    segments = path.key.strip("/").split("/")
    if ".." in segments or "." in segments:
        raise ValueError("must not contain '.' or '..' segments")
    if "//" in (f"/{path.key}" if path.scheme == "s3" else path.key):
        raise ValueError("must not contain empty segments ('//')")
    if path.scheme == "s3" and path.bucket == policy.data_bucket and f"{segments[0]}/" == INTERNAL_PREFIX:
        raise ValueError(f"{INTERNAL_PREFIX} in the data bucket is Longhaul's own")
    if len(path.key.encode()) > _MAX_KEY_BYTES:
        raise ValueError(f"longer than {_MAX_KEY_BYTES} bytes")
    return path
