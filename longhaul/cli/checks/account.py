"""The caller: credentials, permissions, and the quotas of the account."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longhaul.cli.checks.finding import Finding, ok, problem, skipped, warning
from longhaul.cli.target import Target
from longhaul.engines.aws_lambda import ends as aws_lambda

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

_RESERVE = 100
"""Concurrent Lambda executions that are needed at least, beside a share of the slots.

All functions of the account share its limit.
"""


def credentials(target: Target) -> Iterator[Finding]:
    identity = target.client("sts").get_caller_identity()
    yield ok(
        f"credentials: {identity['Arn']}, account {identity['Account']}, region {target.region}"
    )


def permissions(target: Target) -> Iterator[Finding]:
    """By simulation: no action is taken."""
    if target.place.embedded:
        yield skipped("permissions: the embedded AWS enforces none")
        return
    who = target.client("sts").get_caller_identity()["Arn"]
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
        pages = iam.get_paginator("simulate_principal_policy").paginate(
            PolicySourceArn=principal, ActionNames=list(NEEDED[kind]), ResourceArns=resources
        )
        denied += [
            f"{each['EvalActionName']} on {resource}"
            for page in pages
            for each in page["EvaluationResults"]
            for resource in denied_resources(each)
        ]
    if denied:
        yield problem(
            f"permissions: not allowed: {'; '.join(denied)}",
            f"let {principal} do so (docs/reference/cli.md lists what the commands need)",
        )
    else:
        yield ok("permissions: all that the commands need, by simulation")


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


def quotas(target: Target) -> Iterator[Finding]:
    """Whether all slots of all stages can run at once."""
    if target.place.embedded:
        yield skipped("quotas: the embedded AWS has none")
        return
    for spot, name in ((False, "Fargate On-Demand vCPU"), (True, "Fargate Spot vCPU")):
        stages = [
            stage
            for stage in target.settings.stages
            if stage.spot is spot and stage.size != aws_lambda.SIZE
        ]
        if stages:
            needed = sum(stage.slots * _vcpus(target, stage.size) for stage in stages)
            yield _enough(f"{name}s", needed, find_quota(target, "fargate", name))
    # Beats and settles are short: a tenth of the slots at the same moment is already a lot.
    needed = _RESERVE + sum(stage.slots for stage in target.settings.stages) / 10
    if target.settings.has_tiny:
        needed += sum(each.slots for each in target.settings.stages if each.engine == "fargate")
    yield _enough("concurrent Lambda executions", needed, lambda_limit(target))


def _enough(what: str, needed: float, quota: float | None) -> Finding:
    if quota is None:
        return skipped(f"quotas: {what}: the service does not say")
    if needed > quota:
        return warning(
            f"quotas: {quota:g} {what}, and all slots at once need about {needed:g}",
            "raise the quota in Service Quotas, or lower the slots",
        )
    return ok(f"quotas: {quota:g} {what} for about {needed:g}")


def lambda_limit(target: Target) -> int:
    """How many Lambda functions the account may run at once."""
    settings = target.client("lambda").get_account_settings()
    return int(settings["AccountLimit"]["UnreservedConcurrentExecutions"])


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


def _vcpus(target: Target, size: str) -> float:
    family = f"{target.stack}-{size}"
    definition: Any = target.client("ecs").describe_task_definition(taskDefinition=family)[
        "taskDefinition"
    ]
    return int(definition["cpu"]) / 1024


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
