"""What an account may ask of every role: a permissions boundary, a name, a path."""

from hashlib import sha256
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from longhaul.config.settings import Settings

_LONGEST: Final = 64
_LONGEST_REGION: Final = 14
_DIGEST: Final = 8
# Ids of constructs that say nothing in a name.
_UNSAID: Final = ("Default", "Resource")


def apply_boundary(scope: Construct, policy: str | None) -> None:
    """Bound every role below `scope` by the managed policy of that name or ARN."""
    if policy is None:
        return
    of = iam.ManagedPolicy
    boundary = (
        of.from_managed_policy_arn(scope, "Boundary", policy)
        if policy.startswith("arn:")
        else of.from_managed_policy_name(scope, "Boundary", policy)
    )
    iam.PermissionsBoundary.of(scope).apply(boundary)


def apply_names(scope: Construct, settings: Settings) -> None:
    """Give every role below `scope` the path and the prefix of the settings."""
    prefix, path = settings.role_name_prefix, settings.role_path
    if prefix is None and path == "/":
        return
    for each in scope.node.find_all():
        if isinstance(each, iam.CfnRole):
            if path != "/":
                each.path = path
            if prefix is not None:
                each.role_name = _name(each, prefix, path)


def _name(role: iam.CfnRole, prefix: str, path: str) -> str:
    """`PREFIX`, what the role is for, a digest, the region: at most 64 characters.

    The digest tells stacks and paths apart: CloudFormation replaces a role for another path, and
    makes the new one before it deletes the old.
    """
    stack = Stack.of(role)
    text = f"{stack.stack_name} {role.node.path} {path}"
    digest = sha256(text.encode()).hexdigest()[:_DIGEST]
    room = _LONGEST - len(prefix) - _DIGEST - _LONGEST_REGION - len("--")
    parts = [part for part in role.node.path.split("/")[1:] if part not in _UNSAID]
    while len(parts) > 1 and len("".join(parts)) > room:
        parts.pop(0)
    return f"{prefix}{''.join(parts)[-room:]}-{digest}-{stack.region}"
