"""Where a request may read and write, prefixes and tables. Pure.

`s3://bucket/key` in allowed buckets, `file:` only where the settings allow it, and
`table://DATABASE/NAME`, an Iceberg table in the Glue catalog.
"""

import re
import unicodedata
from dataclasses import dataclass
from fnmatch import translate
from typing import Final, Literal
from urllib.parse import unquote

from longhaul.core.settings import TABLE_NAME, PathPolicy

INTERNAL_PREFIX = "longhaul/"
"""Prefix of the data bucket for requests and pending outputs; no request may name it."""

MAX_BESIDE: Final = 5
"""Outputs that a job may have beside its main one. Each is a switch more that a crash may part."""

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
        raise ValueError("must be s3://bucket/…, data:…, or a table: table:NAME")
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


SCHEME: Final = "table://"

OF_DATASET: Final = "__"
"""Between the name of an output's table and that of a dataset's, beside it."""

NAME: Final = re.compile(TABLE_NAME)
_SNAPSHOT: Final = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True)
class TablePath:
    """A table, by the names of its Glue database and its own."""

    database: str
    name: str

    @classmethod
    def of(cls, text: str) -> "TablePath":
        """The table in a text that was checked before."""
        database, _, name = text.removeprefix(SCHEME).partition("/")
        return cls(database, name)

    def __str__(self) -> str:
        return f"{SCHEME}{self.database}/{self.name}"

    def location(self, bucket: str) -> str:
        """Where its files are in the data bucket."""
        return f"s3://{bucket}/{TABLES_PREFIX}{self.database}/{self.name}"

    def is_in(self, output: "TablePath") -> bool:
        """Whether it is that output's own table, or one of its datasets'."""
        is_dataset = self.name.startswith(f"{output.name}{OF_DATASET}")
        return self == output or (is_dataset and self.database == output.database)

    def of_dataset(self, dataset: str) -> "TablePath":
        """The table of a named dataset, beside the one of the output itself."""
        name = dataset.lower().replace("-", "_")
        return TablePath(self.database, f"{self.name}{OF_DATASET}{name}")


@dataclass(frozen=True)
class TableInput:
    """A table to read: `table://DATABASE/NAME`, then `@SNAPSHOT` and `?FILTER` if they are wanted.

    Without a snapshot it is read as it is when an attempt begins.
    """

    table: TablePath
    snapshot: int | None = None
    where: str = ""

    @classmethod
    def of(cls, text: str) -> "TableInput":
        """The table in a text that was checked before."""
        head, _, where = text.partition("?")
        name, _, snapshot = head.partition("@")
        return cls(TablePath.of(name), int(snapshot) if snapshot else None, where)

    def __str__(self) -> str:
        at = "" if self.snapshot is None else f"@{self.snapshot}"
        return f"{self.table}{at}{self.where and '?'}{self.where}"


InputPath = DataPath | TableInput


def input_of(text: str) -> InputPath:
    """The input in a text that was checked before."""
    return TableInput.of(text) if is_table(text) else DataPath.of(text)


def data_folder(token: str) -> str:
    """Below a table's location: where the files of one attempt are."""
    return f"data/{token}/"


def is_table(text: str) -> bool:
    return text.startswith(SCHEME)


def place_of(output: str, bucket: str) -> str:
    """Where the files of an output are: its prefix, or its table's location in the data bucket."""
    return f"{TablePath.of(output).location(bucket)}/" if is_table(output) else output


def parse_table(text: str, policy: PathPolicy) -> TablePath:
    """The table that a request names.

    Raises:
        ValueError: malformed, or in a database that is not allowed; the message says which.
    """
    database, _, name = text.removeprefix(SCHEME).partition("/")
    if not policy.table_databases:
        raise ValueError("this stack has no tables: the setting tables gives it a database")
    if database not in policy.table_databases:
        raise ValueError(
            f"this database is not allowed; allowed: {', '.join(policy.table_databases)}"
        )
    if not NAME.fullmatch(name):
        raise ValueError("a table is table://DATABASE/NAME; a NAME has a-z 0-9 _, at most 180")
    return TablePath(database, name)


def parse_table_input(text: str, policy: PathPolicy) -> TableInput:
    """The table that a request reads.

    Raises:
        ValueError: as `parse_table`; also for a snapshot that is no number, and an empty filter.
    """
    head, filtered, where = text.partition("?")
    name, pinned, snapshot = head.partition("@")
    parse_table(name, policy)
    if pinned and not _SNAPSHOT.fullmatch(snapshot):
        raise ValueError("a snapshot is a number: table://DATABASE/NAME@SNAPSHOT")
    if filtered and not where.strip():
        raise ValueError("there is no filter after the ?: table://DATABASE/NAME?day = '2026-01-31'")
    if has_controls(where):
        raise ValueError("has control characters")
    return TableInput.of(text)
