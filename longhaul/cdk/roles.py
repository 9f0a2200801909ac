"""The roles of stages, and what an account may ask of every role: a boundary, a name, a path."""

from hashlib import sha256
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from longhaul.cdk.nag import acknowledge
from longhaul.config.settings import Settings
from longhaul.config.stages import pascal
from longhaul.core.settings import StageSettings

_LONGEST: Final = 64
_LONGEST_REGION: Final = 14
_DIGEST: Final = 8
# Ids of constructs that say nothing in a name.
_UNSAID: Final = ("Default", "Resource")


def stage_id(stage: str, id_: str) -> str:
    """The id of a stage's own construct, where there is one for each stage.

    The stage `main` has the plain one, which was that of all stages: a stack with that stage alone
    keeps its role when it is upgraded, and what runs keeps its rights.
    """
    return id_ if stage == StageSettings().name else f"{pascal(stage)}{id_}"


def job_roles(
    scope: Construct, id_: str, settings: Settings, *, what: str, assumed_by: iam.IPrincipal
) -> dict[str, iam.IRole]:
    """By stage, the role with which its jobs run on one engine.

    Args:
        scope: gets the roles.
        id_: how their ids end.
        settings: those of the stages.
        what: that runs with it, for people.
        assumed_by: the service that runs it.
    """
    roles: dict[str, iam.IRole] = {}
    for stage in settings.stages:
        own = stage_id(stage.name, id_)
        if stage.advanced.role is not None:
            # What their team has written is not changed: no grant adds to it.
            roles[stage.name] = iam.Role.from_role_arn(
                scope, own, stage.advanced.role, mutable=False
            )
            continue
        roles[stage.name] = role = iam.Role(
            scope,
            own,
            assumed_by=assumed_by,
            description=f"What {what} of the stage {stage.name} may do",
            managed_policies=[
                _managed(scope, f"{own}Policy{n}", each)
                for n, each in enumerate(stage.advanced.managed_policies)
            ],
        )
        for each in stage.advanced.managed_policies:
            if each.startswith("arn:"):
                acknowledge(role, f"IAM4[Policy::{each}]", "The settings of the stage ask for it.")
    return roles


def _managed(scope: Construct, id_: str, policy: str) -> iam.IManagedPolicy:
    """The managed policy of that name or ARN."""
    of = iam.ManagedPolicy
    if policy.startswith("arn:"):
        return of.from_managed_policy_arn(scope, id_, policy)
    return of.from_managed_policy_name(scope, id_, policy)


def apply_boundary(scope: Construct, policy: iam.IManagedPolicy | str | None) -> None:
    """Bound every role below `scope` by the managed policy, or the one of that name or ARN."""
    if policy is not None:
        boundary = _managed(scope, "Boundary", policy) if isinstance(policy, str) else policy
        iam.PermissionsBoundary.of(scope).apply(boundary)


def apply_names(scope: Construct, settings: Settings) -> None:
    """Give every role below `scope` the path and the prefix of the settings."""
    prefix, path = settings.role_name_prefix, settings.role_path
    for each in scope.node.find_all() if prefix or path != "/" else ():
        if isinstance(each, iam.CfnRole):
            each.path = None if path == "/" else path
            each.role_name = _name(each, prefix, path) if prefix else None


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
