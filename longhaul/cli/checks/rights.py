"""What the jobs of each stage may do in AWS, as it is deployed."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from longhaul.cli.checks.finding import Finding, ok, skipped
from longhaul.cli.checks.stack import deployed_template
from longhaul.cli.target import Target
from longhaul.config.stages import pascal
from longhaul.settings import RuntimeSettings, Stage


def rights(target: Target) -> Iterator[Finding]:
    """Of each stage where it reads and writes, and what its settings add."""
    template = deployed_template(target)
    if template is None:
        yield skipped("rights: the template was not deployed as JSON, so not by this app")
        return
    for stage in target.settings.stages:
        yield ok(f"rights: stage {stage.name} {_said(stage, target.settings, template)}")


def task_role(target: Target, stage: str) -> str | None:
    """The name of the role of a stage's tasks; None where it is a role of its team's own."""
    whole = re.compile(rf".*Spark{_whose(stage)}TaskRole[0-9A-F]{{8}}")
    roles = target.physical("AWS::IAM::Role").items()
    return next((name for logical_id, name in roles if whole.fullmatch(logical_id)), None)


def _whose(stage: str) -> str:
    # As `longhaul.cdk.roles.stage_id`.
    return "" if stage == Stage.model_fields["name"].default else pascal(stage)


def _said(stage: Stage, settings: RuntimeSettings, template: Mapping[str, Any]) -> str:
    resources = template.get("Resources", {})
    found = _one(resources, rf"(.*)Spark{_whose(stage.name)}TaskRole", "AWS::IAM::Role")
    if found is None:
        return "has a role of its own, which the stack does not know"
    # Of the construct's id, which all logical ids begin with.
    construct, role = found
    paths, limits = settings.paths, stage.limits
    whole = [f"s3://{each}/" for each in (paths.data_bucket, *paths.output_buckets)]
    reads, writes = limits.input_prefixes, limits.output_prefixes
    if reads is None:
        reads = (*whole, *(f"s3://{each}/" for each in paths.input_buckets))
    parts = [f"reads {_list(reads)}", f"writes {_list(whole if writes is None else writes)}"]
    added = _one(resources, f"({construct}){pascal(stage.name)}Policies", "AWS::IAM::Policy")
    statements = added[1]["PolicyDocument"]["Statement"] if added else []
    for effect, word in (("Allow", "may"), ("Deny", "may never")):
        actions = [
            action
            for each in statements
            if each["Effect"] == effect
            for action in ([each["Action"]] if isinstance(each["Action"], str) else each["Action"])
        ]
        if actions:
            parts.append(f"{word} {_list(actions)}")
    if managed := role.get("ManagedPolicyArns"):
        parts.append(f"has {_list([_name(each) for each in managed])}")
    return "; ".join(parts)


def _one(
    resources: Mapping[str, Any], pattern: str, kind: str
) -> tuple[str, Mapping[str, Any]] | None:
    """The pattern's group, and the properties of the resource of that type.

    The whole logical id matches, before its hash.
    """
    whole = re.compile(rf"{pattern}[0-9A-F]{{8}}")
    for logical_id, each in resources.items():
        if each.get("Type") == kind and (found := whole.fullmatch(logical_id)):
            return found[1], each["Properties"]
    return None


def _name(policy: object) -> str:
    """Of a managed policy, whose ARN may be an intrinsic function."""
    if isinstance(policy, Mapping):
        policy = "".join(each for each in policy["Fn::Join"][1] if isinstance(each, str))
    return str(policy).rpartition(":policy/")[2]


def _list(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts)) or "nothing"
