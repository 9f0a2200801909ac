"""Where a stage's jobs may read and write: what follows from its limits. Imports no CDK."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from longhaul.config.settings import Settings
from longhaul.config.stages import StageDeployment
from longhaul.core.places import TABLES_PREFIX

DATA_BUCKET: Final = ""
"""The prefix that is the whole data bucket."""


@dataclass(frozen=True)
class Access:
    """Where the jobs of a stage read, and write, and where their code comes from.

    Each is a prefix: `s3://bucket/…/`, or one of the data bucket, of which `""` is the whole. What
    they write they may read too.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    code: tuple[str, ...]

    def reads_only(self) -> Sequence[str]:
        """What they read and do not write."""
        return [
            each
            for each in self.reads
            if not any(
                bucket_in(each) == bucket_in(other) and each.startswith(other)
                for other in self.writes
            )
        ]


def access_of(stage: StageDeployment, settings: Settings) -> Access:
    """What follows from the limits of the stage: what a request may name, its job may use.

    A stage without such limits has all that the stack's settings open.
    """
    out = (DATA_BUCKET, *(f"s3://{each}/" for each in settings.output_buckets))
    ins = tuple(f"s3://{each}/" for each in settings.input_buckets)
    limits = stage.advanced.limits
    code = settings.job_prefixes
    if limits.jobs is not None:
        code = tuple(each for each in limits.jobs if "/" in each)
    reads = input_prefixes(stage, settings.stages)
    return Access(
        reads=(*out, *ins) if reads is None else reads,
        writes=out if limits.output_prefixes is None else limits.output_prefixes,
        code=code,
    )


def input_prefixes(
    stage: StageDeployment, stages: Iterable[StageDeployment]
) -> tuple[str, ...] | None:
    """Where a stage reads: below its own prefixes, and where the stages before it write.

    None: wherever the settings of the stack allow.
    """
    own = stage.advanced.limits.input_prefixes
    if own is None:
        return None
    before = (
        each.advanced.limits.output_prefixes or () for each in stages if stage.name in each.next
    )
    return tuple(dict.fromkeys((*own, *(prefix for each in before for prefix in each))))


def tables_below(prefixes: Iterable[str], databases: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The tables whose place is below one of the prefixes: database and name, or `*` for all.

    Tables are at `tables/DATABASE/NAME/` of the data bucket.
    """
    for prefix in prefixes:
        if prefix in (DATA_BUCKET, TABLES_PREFIX):
            yield from ((each, "*") for each in databases)
        elif prefix.startswith(TABLES_PREFIX):
            database, _, name = prefix.removeprefix(TABLES_PREFIX).rstrip("/").partition("/")
            if database in databases and "/" not in name:
                yield database, name or "*"


def absolute(prefixes: Iterable[str], data_bucket: str) -> tuple[str, ...]:
    """Each as `s3://bucket/…`; without a bucket it is one of the data bucket.

    What has no slash is the name of a job, and stays.
    """
    return tuple(
        each if each.startswith("s3://") or "/" not in each else f"s3://{data_bucket}/{each}"
        for each in prefixes
    )


def bucket_in(prefix: str) -> str:
    """The bucket that a prefix names; empty for the data bucket."""
    return prefix.removeprefix("s3://").partition("/")[0] if prefix.startswith("s3://") else ""
