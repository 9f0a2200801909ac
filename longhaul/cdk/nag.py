"""Accepts findings of cdk-nag, each at the construct that causes it and with a reason."""

import re
from collections.abc import Iterable

from aws_cdk import Acknowledgment, Stack, Validations
from constructs import IConstruct

PACK = "AwsSolutions"


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Accept the finding `rule` (`S1`, `IAM5[Resource::*]`) for `construct` and those below it."""
    Validations.of(construct).acknowledge(
        Acknowledgment(id=f"{PACK}::{PACK}-{rule}", reason=reason)
    )


def acknowledge_wildcards(construct: IConstruct, resources: Iterable[str], reason: str) -> None:
    """Accept wildcards in exactly these resources of the policies below `construct`.

    Resources without a wildcard are skipped.
    """
    for resource in resources:
        written = _as_nag_writes(Stack.of(construct).resolve(resource))
        if "*" in written:
            acknowledge(construct, f"IAM5[Resource::{written}]", reason)


def _as_nag_writes(value: object) -> str:
    """A resolved value in nag's notation: `<LogicalId.Attribute>` (GetAtt), `<LogicalId>` (Ref)."""
    match value:
        case str():
            return value
        case {"Ref": str(name)}:
            return f"<{name}>"
        case {"Fn::GetAtt": [str(name), str(attribute)]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Sub": str(text)}:
            return re.sub(r"\$\{([^}]*)}", r"<\1>", text)
        case {"Fn::Join": ["", [*parts]]}:
            return "".join(_as_nag_writes(part) for part in parts)
        case _:
            raise TypeError(f"no notation known for {value!r}")
