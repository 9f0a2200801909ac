"""The caller: credentials, permissions, and the quotas of the account."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longhaul.cli.checks.finding import Finding, ok, problem, skipped, warning
from longhaul.cli.target import Target

NEEDED: Mapping[str, Sequence[str]] = {
    "jobs": ("sqs:SendMessage", "sqs:GetQueueAttributes"),
    "dead_letters": (
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:ChangeMessageVisibility",
        "sqs:GetQueueAttributes",
    ),
    "leases": (
        "dynamodb:GetItem",
        "dynamodb:BatchGetItem",
        "dynamodb:PutItem",
        "dynamodb:UpdateItem",
    ),
    "indexes": ("dynamodb:Query",),
    "requests": ("s3:GetObject",),
    "logs": ("logs:GetLogEvents", "logs:FilterLogEvents"),
}
"""The actions of the commands, by kind of resource."""


def credentials(target: Target) -> Iterator[Finding]:
    who = target.identity
    yield ok(f"credentials: {who['Arn']}, account {who['Account']}, region {target.region}")


def permissions(target: Target) -> Iterator[Finding]:
    """By simulation: no action is taken."""
    if target.place.embedded:
        yield skipped("permissions: the embedded AWS enforces none")
        return
    who = target.identity["Arn"]
    if who.endswith(":root"):
        yield warning(
            "permissions: these are the root user's credentials, which may do everything",
            "use a role",
        )
        return
    iam = target.client("iam")
    principal = _principal(iam, who)
    denied = []
    for kind, resources in _resources(target).items():
        denied += denials(iam, principal, NEEDED[kind], resources)
    if denied:
        yield problem(
            f"permissions: not allowed: {'; '.join(denied)}",
            f"let {principal} do so (docs/reference/cli.md lists what the commands need)",
        )
    else:
        yield ok("permissions: all that the commands need, by simulation")


def denials(
    iam: Any,  # noqa: ANN401 - one of boto3's clients
    principal: str,
    actions: Sequence[str],
    resources: Sequence[str],
) -> list[str]:
    """What the principal may not do, such as `sqs:SendMessage on arn:…`."""
    pages = iam.get_paginator("simulate_principal_policy").paginate(
        PolicySourceArn=principal, ActionNames=[*actions], ResourceArns=[*resources]
    )
    return [
        f"{each['EvalActionName']} on {resource}"
        for page in pages
        for each in page["EvaluationResults"]
        for resource in denied_resources(each)
    ]


def denied_resources(result: Mapping[str, Any]) -> list[str]:
    """The resources on which an action is not allowed.

    A result names its resources inside: its own `EvalResourceName` is only the form of their ARNs.
    Source: `EvaluationResult` (IAM API Reference).
    """
    resources = [
        str(each["EvalResourceName"])
        for each in result.get("ResourceSpecificResults", ())
        if each["EvalResourceDecision"] != "allowed"
    ]
    if not resources and result["EvalDecision"] != "allowed":
        return [str(result.get("EvalResourceName", "*"))]
    return resources


def find_quota(target: Target, service: str, name: str) -> float | None:
    """The account's quota whose name holds these words; None where the service has none such."""
    pages = (
        target.client("service-quotas")
        .get_paginator("list_service_quotas")
        .paginate(ServiceCode=service)
    )
    return next(
        (each["Value"] for page in pages for each in page["Quotas"] if name in each["QuotaName"]),
        None,
    )


def _principal(iam: Any, arn: str) -> str:  # noqa: ANN401 - one of boto3's clients
    """The role itself for an assumed role: policies belong to the role."""
    if ":assumed-role/" not in arn:
        return arn
    return str(iam.get_role(RoleName=arn.split("/")[1])["Role"]["Arn"])


def _resources(target: Target) -> dict[str, list[str]]:
    """ARNs by kind."""
    settings = target.settings
    partition, region, account = (settings.state_machine_arn.split(":")[n] for n in (1, 3, 4))

    def queue(url: str) -> str:
        return f"arn:{partition}:sqs:{region}:{account}:{url.rpartition('/')[2]}"

    table = f"arn:{partition}:dynamodb:{region}:{account}:table/{settings.leases_table}"
    return {
        "jobs": [queue(stage.queue_url) for stage in settings.stages],
        "dead_letters": [queue(stage.dead_letter_queue_url) for stage in settings.stages],
        "leases": [table],
        "indexes": [f"{table}/index/*"],
        "requests": [
            f"arn:{partition}:s3:::{settings.paths.data_bucket}/longhaul/requests/*",
            f"arn:{partition}:s3:::{settings.paths.data_bucket}/longhaul/joined/*",
        ],
        "logs": [f"arn:{partition}:logs:{region}:{account}:log-group:{settings.job_log_group}:*"],
    }
