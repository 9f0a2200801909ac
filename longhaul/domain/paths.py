"""Where a request may read and write.

`s3://bucket/key` in allowed buckets, `file:` only where the settings allow it.
"""

import re
import unicodedata
from dataclasses import dataclass
from fnmatch import translate
from typing import Literal
from urllib.parse import unquote

from longhaul.settings import PathPolicy

INTERNAL_PREFIX = "longhaul/"
"""Prefix of the data bucket for requests and pending outputs; no request may name it."""

TABLES_PREFIX = "tables/"
"""Prefix of the data bucket for tables: `tables/DATABASE/NAME/`."""

# S3's limit less what the publisher appends (file name with key hash, run, attempt).
_MAX_KEY_BYTES = 1024 - 256


@dataclass(frozen=True)
class DataPath:
    """A parsed path. `bucket` is empty for `file:` paths, whose `key` is the absolute path."""

    scheme: Literal["s3", "file"]
    bucket: str
    key: str

    @classmethod
    def of(cls, text: str) -> "DataPath":
        """The path in a text that was checked before, whatever the policy allows now."""
        scheme, _, rest = text.partition(":")
        return cls("file", "", _on_disk(rest)) if scheme == "file" else cls.on_s3(text)

    @classmethod
    def prefix_of(cls, text: str) -> "DataPath":
        """The same for an output: its key ends with a slash."""
        return cls.on_s3(text.rstrip("/") + "/")

    @classmethod
    def on_s3(cls, text: str) -> "DataPath":
        """The path in a text `s3://bucket/key` that was checked before."""
        bucket, _, key = text.removeprefix("s3://").partition("/")
        return cls("s3", bucket, key)

    def __str__(self) -> str:
        return f"file://{self.key}" if self.scheme == "file" else f"s3://{self.bucket}/{self.key}"


def follow_ons_prefix(stage: str) -> str:
    """Prefix of the data bucket for the outputs of a stage's follow-ons that name none."""
    return f"stages/{stage}/"


def has_controls(text: str) -> bool:
    """Whether a line of a log or a terminal would show the text as something else than it is.

    Control, format, line and paragraph characters, and halves of surrogate pairs.
    """
    return any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in text)


def is_glob(key: str) -> bool:
    return any(c in key for c in "*?[")


def matches(segment: str, pattern: str) -> bool:
    """Whether a segment of a key matches one of a path, which may be a glob.

    `fnmatchcase` would compile plain text too, and keep 32,768 patterns that senders wrote.
    """
    if not is_glob(pattern):
        return segment == pattern
    return re.match(translate(pattern), segment) is not None


def may_meet_ours(key: str) -> bool:
    """Whether a key or glob in the data bucket is in our own prefix, or can match what is.

    Our own listing leaves that out. Another reader of the glob, as Spark on a cluster, does not.
    """
    return matches(INTERNAL_PREFIX.rstrip("/"), key.strip("/").partition("/")[0])


def parse_readable(text: str, policy: PathPolicy) -> DataPath:
    """The path of what may be read: an object, a prefix or a glob.

    Raises:
        ValueError: malformed, escaping, or outside the allowed buckets; the message says which, for
            people.
    """
    return _parse(
        text, policy, allowed=(policy.data_bucket, *policy.input_buckets, *policy.output_buckets)
    )


def parse_input(text: str, policy: PathPolicy) -> DataPath:
    """The path of an input.

    Raises:
        ValueError: as `parse_readable`; also among the files of tables.
    """
    path = parse_readable(text, policy)
    _require_no_tables(path, policy)
    return path


def parse_output(text: str, policy: PathPolicy) -> DataPath:
    """The path prefix of an output; its key ends with a slash.

    Raises:
        ValueError: as `parse_input`; also for a bucket's root and for glob characters.
    """
    if not text.startswith(("s3:", "file:")):
        raise ValueError("must be s3://bucket/…, data:…, or a table: table://DATABASE/NAME")
    path = _parse(text, policy, allowed=(policy.data_bucket, *policy.output_buckets))
    if path.scheme != "s3":
        raise ValueError(
            "an output is published on S3: s3://bucket/…; file: paths serve for inputs only"
        )
    if is_glob(path.key):
        raise ValueError("an output is one prefix: no glob characters (* ? [)")
    if not path.key.strip("/"):
        raise ValueError("an output needs a prefix of its own, not the root")
    _require_no_tables(path, policy)
    return DataPath.prefix_of(str(path))


def parse_job(text: str, policy: PathPolicy) -> DataPath:
    """The path of a job's code: one Python file under an allowed prefix.

    Raises:
        ValueError: as `parse_input`; also for code from outside the allowed prefixes, and for
            anything while there are none.
    """
    if not policy.job_prefixes:
        raise ValueError(
            "code from S3 is not allowed here: "
            "the setting job_prefixes would name the places it may come from"
        )
    if not text.startswith(policy.job_prefixes):
        raise ValueError(
            f"not under a prefix that code may come from: {', '.join(policy.job_prefixes)}"
        )
    path = _parse(
        text, policy, allowed=tuple(prefix.split("/")[2] for prefix in policy.job_prefixes)
    )
    if not path.key.endswith(".py") or is_glob(path.key):
        raise ValueError("must be one Python file: s3://…/name.py")
    return path


def _require_no_tables(path: DataPath, policy: PathPolicy) -> None:
    """Only a table's metadata tells its present files from replaced ones.

    Raises:
        ValueError: the path is among the files of tables, or has them below it, as a glob too.
    """
    patterns = [each for each in path.key.split("/") if each]
    if path.bucket == policy.data_bucket and any(
        all(map(matches, (TABLES_PREFIX.rstrip("/"), database), patterns))
        for database in policy.table_databases
    ):
        raise ValueError("tables are there: name one as table://DATABASE/NAME")


def _on_disk(rest: str) -> str:
    """The absolute path in what follows `file:`."""
    return "/" + unquote(rest).lstrip("/")


def _parse(text: str, policy: PathPolicy, allowed: tuple[str, ...]) -> DataPath:
    scheme, separator, rest = text.partition(":")
    if scheme == "s3" and rest.startswith("//"):
        bucket, _, key = rest[2:].partition("/")
        if bucket not in allowed:
            raise ValueError(
                f"this bucket is not allowed; allowed: {', '.join(dict.fromkeys(allowed))}"
            )
        path = DataPath("s3", bucket, key)
    elif scheme == "file" and policy.allow_file and separator:
        # `file://rows.csv` names a machine in a URL, and is meant to be a file beside the sender.
        if rest.startswith("//") and not rest.startswith("///"):
            raise ValueError("a file: path is absolute: file:///…")
        path = DataPath("file", "", _on_disk(rest))
    else:
        others = ", data:… or file:///…" if policy.allow_file else " or data:…"
        raise ValueError(f"must be s3://bucket/…{others}")
    if has_controls(path.key):  # in a `file:` path also those that were escaped
        raise ValueError("has control characters")
    segments = path.key.strip("/").split("/")
    if ".." in segments or "." in segments:
        raise ValueError("must not contain '.' or '..' segments")
    if "//" in (f"/{path.key}" if path.scheme == "s3" else path.key):
        raise ValueError("must not contain empty segments ('//')")
    if path.scheme == "s3" and path.bucket == policy.data_bucket and may_meet_ours(path.key):
        way_out = "" if f"{segments[0]}/" == INTERNAL_PREFIX else ": begin the glob with a prefix"
        raise ValueError(f"{INTERNAL_PREFIX} in the data bucket is Longhaul's own{way_out}")
    if len(path.key.encode()) > _MAX_KEY_BYTES:
        raise ValueError(f"longer than {_MAX_KEY_BYTES} bytes")
    return path
