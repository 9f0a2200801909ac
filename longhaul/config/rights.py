"""What a stage's jobs may do in AWS: what its settings say, and what follows from its limits.

Imports no CDK.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from longhaul.domain.paths import TABLES_PREFIX
from longhaul.settings import Model

if TYPE_CHECKING:
    from longhaul.config.settings import Settings
    from longhaul.config.stages import StageDeployment

# What the CDK has in the place of a name that CloudFormation will give.
TO_COME: Final = r"\$\{Token\[[^\]]+\]\}"

DATA_BUCKET: Final = ""
"""The prefix that is the whole data bucket."""

# By its name, with a path if it has one, or by its ARN.
PolicyName = Annotated[
    str,
    Field(
        pattern=r"^(arn:aws[a-z-]*:iam::(\d{12}|aws):policy/)?"
        r"([A-Za-z0-9._+=,@-]+/)*[A-Za-z0-9._+=,@-]{1,128}$"
    ),
]

_ROLE: Final = re.compile(
    rf"arn:aws[a-z-]*:iam::\d{{12}}:role/([\w+=,.@-]+/)*[\w+=,.@-]{{1,64}}|{TO_COME}"
)
_ACTION: Final = re.compile(r"[a-z0-9-]+:[A-Za-z0-9*?]+")
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
_OPERATOR: Final = re.compile(
    r"(For(All|Any)Values:)?("
    r"String(Not)?Equals(IgnoreCase)?|String(Not)?Like|Arn(Not)?(Equals|Like)|(Not)?IpAddress"
    r"|(Numeric|Date)((Not)?Equals|(Less|Greater)Than(Equals)?)|Bool|BinaryEquals)(IfExists)?|Null"
)
_RESOURCE: Final = re.compile(rf"\*|arn:.+|.*{TO_COME}.*")


def _matching(pattern: re.Pattern[str], why: str) -> AfterValidator:
    """Takes what matches as a whole. Of others `why` says what they are not."""

    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"{text!r} {why}")
        return text

    return AfterValidator(check)


def _several(value: object) -> object:
    """IAM takes one text for a list of one."""
    return (
        (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value
    )


RoleArn = Annotated[
    str,
    _matching(_ROLE, "is no role: arn:aws:iam::123456789012:role/NAME is the ARN of one"),
]
_Texts = Annotated[tuple[str, ...], BeforeValidator(_several), Field(min_length=1)]
_Actions = Annotated[
    tuple[
        Annotated[str, _matching(_ACTION, "is no action of a service, as s3:GetObject is one")], ...
    ],
    BeforeValidator(_several),
    Field(min_length=1),
]
_Resources = Annotated[
    tuple[Annotated[str, _matching(_RESOURCE, "is no resource: the ARN of one, or *")], ...],
    BeforeValidator(_several),
    Field(min_length=1),
]
_Operator = Annotated[
    str, _matching(_OPERATOR, "is no operator of IAM's conditions, as StringEquals is one")
]


class Statement(Model):
    """A statement of a policy, in IAM's own words."""

    # Tells it from others.
    Sid: Annotated[str, Field(pattern=r"^[A-Za-z0-9]+$")] | None = None
    # What is denied is denied to the jobs, whatever else allows it.
    Effect: Literal["Allow", "Deny"]
    # `service:Action`, one or several.
    Action: _Actions
    # ARNs, or `*`: for actions that know no resource.
    Resource: _Resources
    # As in IAM: operator → key → one value or several.
    Condition: dict[_Operator, dict[str, _Texts]] = Field(default_factory=dict)


def statements(stage: "StageDeployment") -> list[dict[str, Any]]:
    """The stage's own statements, as IAM takes them."""
    return [each.model_dump(mode="json", exclude_defaults=True) for each in stage.advanced.policies]


@dataclass(frozen=True)
class Access:
    """Where the jobs of a stage read, and write, and where their code comes from.

    Each is a prefix: `s3://bucket/…/`, or one of the data bucket, of which `""` is the whole. What
    they write they may read too.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    code: tuple[str, ...]

    @property
    def buckets(self) -> Sequence[str]:
        """The buckets beside the data bucket."""
        return tuple(dict.fromkeys(filter(None, map(bucket_in, (*self.reads, *self.writes)))))

    def reads_only(self) -> Sequence[str]:
        """What they read and do not write."""
        return [each for each in self.reads if not _within(each, self.writes)]


def access_of(stage: "StageDeployment", settings: "Settings") -> Access:
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
    stage: "StageDeployment", stages: Iterable["StageDeployment"]
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


def bucket_in(prefix: str) -> str:
    """The bucket that a prefix names; empty for the data bucket."""
    return prefix.removeprefix("s3://").partition("/")[0] if prefix.startswith("s3://") else ""


def _within(prefix: str, others: Iterable[str]) -> bool:
    return any(bucket_in(prefix) == bucket_in(each) and prefix.startswith(each) for each in others)
