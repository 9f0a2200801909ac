"""Policies and roles of an account, as a stage's settings have them. The rest is IAM's to say.

Imports no CDK.
"""

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from longhaul.core.settings import Model

# What the CDK has in the place of a name that CloudFormation will give.
TO_COME: Final = r"\$\{Token\[[^\]]+\]\}"

# By its name, with a path if it has one, or by its ARN.
PolicyName = Annotated[
    str,
    Field(
        pattern=r"^(arn:aws[a-z-]*:iam::(\d{12}|aws):policy/)?"
        r"([A-Za-z0-9._+=,@-]+/)*[A-Za-z0-9._+=,@-]{1,128}$"
    ),
]
RoleArn = Annotated[
    str,
    Field(
        pattern=rf"^(arn:aws[a-z-]*:iam::\d{{12}}:role/([\w+=,.@-]+/)*[\w+=,.@-]{{1,64}}|{TO_COME})$"
    ),
]


def _several(value: object) -> object:
    """IAM takes one text for a list of one."""
    return (
        (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value
    )


_Texts = Annotated[tuple[str, ...], BeforeValidator(_several), Field(min_length=1)]


class Statement(Model):
    """A statement of a policy, in IAM's own words."""

    # Tells it from others.
    Sid: Annotated[str, Field(pattern=r"^[A-Za-z0-9]+$")] | None = None
    # What is denied is denied to the jobs, whatever else allows it.
    Effect: Literal["Allow", "Deny"]
    # `service:Action`, one or several.
    Action: _Texts
    # ARNs, or `*`: for actions that know no resource.
    Resource: _Texts
    # As in IAM: operator → key → one value or several.
    Condition: dict[str, dict[str, _Texts]] = Field(default_factory=dict)
