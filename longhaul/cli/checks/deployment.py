"""What a deployment needs of this machine and of the account, and would do to the stack.

Only what neither CloudFormation nor the build of the image says as clearly: jobs that would wait,
messages that would be deleted.
"""

import platform
from collections.abc import Iterator
from typing import Any, Final

from botocore.exceptions import ClientError

from longhaul.cli.checks.finding import Finding, ok, problem, warning
from longhaul.cli.checks.plan import Plan
from longhaul.cli.errors import CommandError
from longhaul.cli.synth import ARCHITECTURES
from longhaul.cli.target import Target
from longhaul.core.aws_errors import code_of
from longhaul.core.settings import Stage
from longhaul.operations.stage_counts import counts_of

_SERVICE_ROLE: Final = "AWSServiceRoleForECS"
# Dispatchers and a sweep at the same moment.
_OWN_FUNCTIONS: Final = 10


def image(plan: Plan) -> Iterator[Finding]:
    """Whether this machine is of the architecture of the image, which Docker emulates otherwise."""
    wanted, here = plan.settings.architecture, platform.machine()
    text = f"image: is for {wanted}, this machine is {here}"
    if ARCHITECTURES.get(here) == wanted:
        yield ok(text)
        return
    yield warning(
        f"{text}: Docker emulates the build, slowly and without the AOT training; where it cannot, "
        "the build ends with `exec format error`",
        "nothing, or install emulation (`docker run --privileged --rm tonistiigi/binfmt --install "
        f"all`), or set architecture to {'x86_64' if wanted == 'arm64' else 'arm64'}",
    )


def bootstrap(plan: Plan) -> Iterator[Finding]:
    """Whether the account has what `longhaul bootstrap` makes."""
    name = f"/cdk-bootstrap/{plan.settings.bootstrap_qualifier}/version"
    missing = []
    try:
        plan.target.client("ssm").get_parameter(Name=name)
    except ClientError as error:
        if code_of(error) != "ParameterNotFound":
            raise
        missing.append(f"parameter {name}")
    if not has_service_role(plan.target.client("iam")):
        # The first cluster with capacity providers would fail, and the stack roll back.
        missing.append(f"role {_SERVICE_ROLE}")
    where = f"this account in {plan.target.region}"
    if missing:
        yield problem(
            f"bootstrap: {where} has no {' and no '.join(missing)}",
            "run `longhaul bootstrap` once, with the rights of an administrator; or name the "
            "bootstrap that the account has, in the setting bootstrap_qualifier",
        )
    else:
        yield ok(f"bootstrap: {where} is prepared")


def has_service_role(iam: Any) -> bool:  # noqa: ANN401 - one of boto3's clients
    """Whether the account has the service-linked role of ECS."""
    try:
        iam.get_role(RoleName=_SERVICE_ROLE)
    except ClientError as error:
        if code_of(error) != "NoSuchEntity":
            raise
        return False
    return True


def vcpus(plan: Plan) -> Iterator[Finding]:
    """Whether the account may run the slots of all stages at once, or at least one job of each."""
    sizes = plan.settings.sizes.by_name()
    for is_spot, name in ((False, "Fargate On-Demand vCPU"), (True, "Fargate Spot vCPU")):
        stages = [
            (each.slots, sizes[each.size].cpu / 1024)
            for each in plan.stages
            if each.advanced.spot is is_spot
            and each.advanced.engine == "fargate"
            and each.size in sizes
        ]
        if not stages:
            continue
        quota = _quota(plan, "fargate", name)
        needed = sum(slots * cpus for slots, cpus in stages)
        text = f"quotas: the account has {quota:g} {name}s, and all slots need {needed:g}"
        if quota >= needed:
            yield ok(text)
            continue
        says = problem if quota < max(cpus for _, cpus in stages) else warning
        yield says(
            f"{text}: ECS refuses the tasks beyond that, and their jobs wait",
            f"ask for {needed:g} in Service Quotas (AWS Fargate, {name} resource count), or lower "
            "slots or size",
        )


def _quota(plan: Plan, service: str, name: str) -> float:
    """The account's quota whose name holds these words."""
    pager = plan.target.client("service-quotas").get_paginator("list_service_quotas")
    for page in pager.paginate(ServiceCode=service):
        for each in page["Quotas"]:
            if name in each["QuotaName"]:
                return float(each["Value"])
    raise CommandError(f"the service does not say how many {name}s the account has")


def functions(plan: Plan) -> Iterator[Finding]:
    """Whether the stack's functions, and jobs on Lambda, have room: all share one limit."""
    slots = sum(each.slots for each in plan.stages)
    jobs = slots if plan.settings.sizes.tiny else 0
    # Beats and settles are short: a tenth of the slots at the same moment is already a lot.
    needed = jobs + _OWN_FUNCTIONS + slots // 10
    settings = plan.target.client("lambda").get_account_settings()
    limit = int(settings["AccountLimit"]["UnreservedConcurrentExecutions"])
    text = f"quotas: the account may run {limit} functions at once, and {needed} are needed"
    if limit >= needed:
        yield ok(text)
        return
    says = problem if jobs and limit <= _OWN_FUNCTIONS else warning
    yield says(
        f"{text}: tiny jobs and heartbeats will be throttled",
        "ask for more in Service Quotas (AWS Lambda, Concurrent executions; a new account has 10), "
        "or lower slots",
    )


def stages(plan: Plan) -> Iterator[Finding]:
    """Whether the deployment would delete queues that are in use."""
    planned = [stage.name for stage in plan.settings.stages]
    found = False
    for stage in () if plan.is_first else plan.target.settings.stages:
        if stage.name not in planned and (why := _still_needed(plan.target, stage)):
            found = True
            yield problem(
                f"stage {stage.name}: is not in the settings any more, and {why}: the "
                "deployment would delete its queues with what is in them",
                "put it back with `advanced = { retired = true }`, deploy, and take it out "
                "once it is empty (docs/operations.md, Take a stage out)",
            )
    if not found:
        yield ok(f"stages: {plan.target.stack} keeps all queues that are in use")


def _still_needed(target: Target, stage: Stage) -> str:
    """Why the stage cannot be taken out yet; empty if it can."""
    counts = counts_of(target, stage, begun=0)
    work = {
        "messages": counts.queued,
        "dead letters": counts.dead_letters,
        "unfinished jobs": len(target.jobs.unfinished([stage.name])),
    }
    if any(work.values()):
        return f"still has {', '.join(f'{count} {what}' for what, count in work.items() if count)}"
    # A job that is sent or claimed during the deployment would be lost.
    return "" if stage.retired else "was not retired"
