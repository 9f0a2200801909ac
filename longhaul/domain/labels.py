"""What people call a job: a label and tags. Pure.

They name work and do not describe it: no rule reads them, and a request with other ones asks for
the same work (`docs/internals/decisions/0022-labels-name-work.md`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, Protocol

from pydantic import AfterValidator, BeforeValidator

MAX_LABEL: Final = 100
MAX_TAGS: Final = 10
MAX_TAG: Final = 64
# With the label in each write of progress: a write is billed by whole kilobytes of its row.
MAX_TAG_BYTES: Final = 512
RESERVED: Final = "longhaul"
LABEL_RULE: Final = f"1 to {MAX_LABEL} characters that can be printed, no blank at either end"
_MAX_TAG_VALUE: Final = 256
_NOT_IN_A_TAG: Final = re.compile(r"[^\w +=.:/@-]")
_TAG_NAME: Final = re.compile(rf"[A-Za-z0-9._/:-]{{1,{MAX_TAG}}}")


def tag_value(text: str) -> str:
    """The text as a value of AWS's tags: 256 characters, with `_` for each that is not allowed.

    Source: "Tag restrictions" (Amazon ECS Developer Guide).
    """
    value = _NOT_IN_A_TAG.sub("_", text)[:_MAX_TAG_VALUE]
    # What begins so is kept for AWS, in values too.
    return f"_{value[1:]}" if value.lower().startswith("aws:") else value


def _text(value: str) -> str:
    # Not printable are also marks of direction, which would change how a line around them reads.
    if not 0 < len(value) <= MAX_LABEL or not value.isprintable() or value != value.strip():
        raise ValueError(f"has {LABEL_RULE}")
    return value


def _few(value: object) -> object:
    # Before each is looked at: a message has room for 100,000.
    if isinstance(value, dict) and len(value) > MAX_TAGS:
        raise ValueError(f"at most {MAX_TAGS}, not {len(value):,}")
    return value


def _tag_name(value: str) -> str:
    if not _TAG_NAME.fullmatch(value):
        raise ValueError(f"a tag's name has 1 to {MAX_TAG} of A-Z a-z 0-9 . _ / : -")
    if value.lower().startswith(RESERVED):
        raise ValueError(f"names that begin with {RESERVED} are kept for Longhaul's own tags")
    return value


def _bytes(tags: Mapping[str, str]) -> int:
    return sum(len(f"{name}{value}".encode()) for name, value in tags.items())


def _small(value: dict[str, str]) -> dict[str, str]:
    if (size := _bytes(value)) > MAX_TAG_BYTES:
        raise ValueError(f"at most {MAX_TAG_BYTES} bytes of names and values, not {size:,}")
    return value


Label = Annotated[str, AfterValidator(_text)]
Tags = Annotated[
    dict[Annotated[str, AfterValidator(_tag_name)], Annotated[str, AfterValidator(_text)]],
    BeforeValidator(_few),
    AfterValidator(_small),
]


def label_from(text: str) -> str | None:
    """A label that says what a text of any kind says; None where nothing of it can be printed."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return shown.strip()[-MAX_LABEL:].strip() or None


class Named(Protocol):
    """A row, or a request."""

    @property
    def label(self) -> str | None: ...
    @property
    def tags(self) -> Mapping[str, str]: ...


def named_after(parent: Named, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request of a job that follows from `parent`, with the parent's label and tags.

    What the request says itself counts. Of so many tags that a request may not have them, those of
    the parent are left out that are too many.
    """
    own: Mapping[str, str] = request.get("tags") or {}
    tags = dict(own)
    for name, value in parent.tags.items():
        longer = {**tags, name: value}
        if name not in tags and len(longer) <= MAX_TAGS and _bytes(longer) <= MAX_TAG_BYTES:
            tags = longer
    label = request.get("label") or parent.label
    names = {"label": label, "tags": tags}
    return {**request, **{name: value for name, value in names.items() if value}}


@dataclass(frozen=True)
class Names:
    """A filter: a label's glob (`2026-10-*`), and a glob for the value of each of these tags."""

    label: str | None = None
    tags: Sequence[tuple[str, str]] = ()

    def __bool__(self) -> bool:
        return self.label is not None or bool(self.tags)

    def include(self, job: Named) -> bool:
        """Whether the job has such a label and every one of the tags."""
        return (self.label is None or fnmatchcase(job.label or "", self.label)) and all(
            name in job.tags and fnmatchcase(job.tags[name], value) for name, value in self.tags
        )
