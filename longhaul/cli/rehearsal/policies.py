"""IAM's own word on the stack's policies: Access Analyzer reads them, the simulator judges them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from botocore.exceptions import ClientError

from longhaul.cli.checks.account import denied_resources
from longhaul.cli.rehearsal.answer import Answer, bad, good, odd, unasked
from longhaul.cli.rehearsal.template import Role, Template
from longhaul.cli.sentences import is_denied
from longhaul.cli.target import Target

VALIDATE: Final = ("access-analyzer:ValidatePolicy",)
SIMULATE: Final = ("iam:SimulateCustomPolicy", "iam:GetPolicy", "iam:GetPolicyVersion")

# Access Analyzer checks more of these, if it is told which they are.
_RESOURCE_TYPES: Final = {"AWS::S3::BucketPolicy": "AWS::S3::Bucket"}
_SAMPLE: Final = "sample"
_FINDINGS: Final = {"ERROR": bad, "SECURITY_WARNING": odd, "WARNING": odd}


def validated(target: Target, template: Template) -> Iterator[Answer]:
    """Each policy of the template, by `ValidatePolicy`."""
    client = target.client("accessanalyzer")
    for role in template.roles():
        for name, document in role.policies.items():
            yield from _findings(
                client, f"policy {name}", {"policyType": "IDENTITY_POLICY"}, document
            )
        given = {
            "policyType": "RESOURCE_POLICY",
            "validatePolicyResourceType": "AWS::IAM::AssumeRolePolicyDocument",
        }
        yield from _findings(client, f"trust policy of {role.name}", given, role.trust)
    for each in template.resource_policies():
        given = {"policyType": "RESOURCE_POLICY"}
        if each.kind in _RESOURCE_TYPES:
            given["validatePolicyResourceType"] = _RESOURCE_TYPES[each.kind]
        yield from _findings(client, f"resource policy {each.name}", given, each.document)


def _findings(
    client: Any,  # noqa: ANN401 - one of boto3's clients
    what: str,
    given: Mapping[str, str],
    document: Mapping[str, Any],
) -> Iterator[Answer]:
    pages = client.get_paginator("validate_policy").paginate(
        policyDocument=json.dumps(document), **given
    )
    found = [each for page in pages for each in page["findings"]]
    for each in found:
        text = f"{each['findingType']} {each['issueCode']}: {each['findingDetails']}"
        if (answer := _FINDINGS.get(each["findingType"])) is not None:
            yield answer(what, text, f"see {each['learnMoreLink']}, and report it to Longhaul")
        else:
            yield good(what, text)
    if not found:
        yield good(what, "no finding")


def simulated(target: Target, template: Template) -> Iterator[Answer]:
    """Each statement of each role, by `SimulateCustomPolicy` over all policies of the role.

    What a statement allows must be allowed, within the role's boundary too, and what one denies
    must be denied.
    """
    iam = target.client("iam")
    for role in template.roles():
        given: dict[str, Any] = {
            "PolicyInputList": [json.dumps(each) for each in role.policies.values()]
        }
        if not role.policies:
            continue
        if role.boundary is not None:
            try:
                given["PermissionsBoundaryPolicyInputList"] = [_boundary(iam, role.boundary)]
            except ClientError as error:
                if not is_denied(error):
                    raise
                yield unasked(
                    f"boundary of {role.name}",
                    f"not allowed to read {role.boundary}: what follows leaves it out",
                    "ask with iam:GetPolicy and iam:GetPolicyVersion",
                )
        yield from _judged(iam, role, given)


def _boundary(iam: Any, arn: str) -> str:  # noqa: ANN401 - one of boto3's clients
    version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
    policy = iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]
    return json.dumps(policy["Document"])  # boto3 has decoded it


def _judged(iam: Any, role: Role, given: Mapping[str, Any]) -> Iterator[Answer]:  # noqa: ANN401
    wrong = False
    count = 0
    for document in role.policies.values():
        for statement in document["Statement"]:
            results = _results(iam, statement, given)
            count += len(results)
            for each in results:
                if (answer := _answer(role, statement, each)) is not None:
                    wrong = True
                    yield answer
    if not wrong:
        yield good(f"role {role.name}", f"{count} actions are judged as the statements mean them")


def _answer(role: Role, statement: Mapping[str, Any], result: Mapping[str, Any]) -> Answer | None:
    """None where the statement does what it says."""
    action = result["EvalActionName"]
    denied = denied_resources(result)
    if statement["Effect"] == "Deny":
        if denied and len(denied) == max(1, len(result.get("ResourceSpecificResults", ()))):
            return None
        return bad(
            f"role {role.name}: {action}",
            f"allowed, and the statement {statement.get('Sid', '')} denies it",
            "report it to Longhaul",
        )
    if not denied:
        return None
    details = [result, *result.get("ResourceSpecificResults", ())]
    boundary = any(
        not each["PermissionsBoundaryDecisionDetail"]["AllowedByPermissionsBoundary"]
        for each in details
        if "PermissionsBoundaryDecisionDetail" in each
    )
    if boundary:
        return bad(
            f"role {role.name}: {action}",
            f"the permissions boundary does not allow it, on {', '.join(denied)}",
            f"ask the account's platform team to allow {action} in {role.boundary}",
        )
    missing = {key for each in details for key in each.get("MissingContextValues", ())}
    why = f" (the simulation lacked {', '.join(sorted(missing))})" if missing else ""
    return bad(
        f"role {role.name}: {action}",
        f"{result['EvalDecision']} on {', '.join(denied)}{why}",
        f"the statement {statement.get('Sid', '')} should allow it: report it to Longhaul",
    )


def _results(
    iam: Any,  # noqa: ANN401 - one of boto3's clients
    statement: Mapping[str, Any],
    given: Mapping[str, Any],
) -> list[Mapping[str, Any]]:
    pages = iam.get_paginator("simulate_custom_policy").paginate(
        ActionNames=_listed(statement["Action"]), **_place(statement), **given
    )
    return [each for page in pages for each in page["EvaluationResults"]]


def _place(statement: Mapping[str, Any]) -> dict[str, Any]:
    """Resources and context that the statement is about."""
    resources = [each.replace("*", _SAMPLE) for each in _listed(statement["Resource"])]
    place: dict[str, Any] = {} if resources == [_SAMPLE] else {"ResourceArns": resources}
    context = [
        _entry(operator, key, _listed(values))
        for operator, keys in statement.get("Condition", {}).items()
        for key, values in keys.items()
    ]
    return place | ({"ContextEntries": context} if context else {})


def _entry(operator: str, key: str, values: Sequence[str]) -> dict[str, Any]:
    """Values of a key with which the condition is true."""
    _, _, name = operator.rpartition(":")
    if name not in ("StringEquals", "StringLike", "ArnEquals", "ArnLike"):
        raise NotImplementedError(f"the condition {operator} of a role")
    samples = [value.replace("*", _SAMPLE) for value in values]
    if operator.startswith(("ForAllValues:", "ForAnyValue:")):
        return {
            "ContextKeyName": key,
            "ContextKeyValues": samples,
            "ContextKeyType": "stringList",
        }
    return {"ContextKeyName": key, "ContextKeyValues": samples[:1], "ContextKeyType": "string"}


def _listed(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
