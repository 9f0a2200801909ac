"""What a deployment needs of the account, and what it would do to the stack that it changes."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from botocore.exceptions import ClientError

from longhaul.adapters.errors import code_of
from longhaul.cli.checks.account import find_quota
from longhaul.cli.checks.finding import Finding, ok, problem, skipped, warning
from longhaul.cli.checks.plan import Plan
from longhaul.cli.target import Target
from longhaul.config.settings import database_name
from longhaul.config.stages import queue_prefix
from longhaul.settings import Stage

# The template's own rule refuses a version below the least.
LEAST_VERSION: Final = 6
SERVICE_ROLE: Final = "AWSServiceRoleForECS"

# Dispatchers and a sweep at the same moment.
_OWN_FUNCTIONS: Final = 10
_WAITING: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


def bootstrap(plan: Plan) -> Iterator[Finding]:
    """Whether the CDK has its bucket, its registry and its roles in this account and region."""
    where = f"this account in {plan.target.region}"
    name = f"/cdk-bootstrap/{plan.settings.bootstrap_qualifier}/version"
    try:
        parameter = plan.client("ssm").get_parameter(Name=name)["Parameter"]
    except ClientError as error:
        if code_of(error) != "ParameterNotFound":
            raise
        yield problem(
            f"bootstrap: {where} has none: there is no parameter {name}",
            "run `longhaul bootstrap` once for each account and region; it needs the rights of an "
            "administrator. Or name the qualifier of the bootstrap that the account has, in the "
            "setting bootstrap_qualifier",
        )
        return
    version = int(parameter["Value"])
    if version < LEAST_VERSION:
        yield problem(
            f"bootstrap: {where} has version {version}, and {LEAST_VERSION} is the least",
            "run `longhaul bootstrap` again: it upgrades",
        )
    else:
        yield ok(f"bootstrap: version {version}")


def roles(plan: Plan) -> Iterator[Finding]:
    """Whether the policy exists that is to bound every role."""
    policy = plan.settings.permissions_boundary
    if policy is None:
        return
    if not policy.startswith("arn:"):
        who = plan.target.identity
        partition = who["Arn"].split(":")[1]
        policy = f"arn:{partition}:iam::{who['Account']}:policy/{policy}"
    try:
        plan.client("iam").get_policy(PolicyArn=policy)
    except ClientError as error:
        if code_of(error) != "NoSuchEntity":
            raise
        yield problem(
            f"roles: there is no policy {policy}, which permissions_boundary names: no role could "
            "be made",
            "name the account's own boundary, with its path (`aws iam list-policies --scope Local` "
            "lists them), or ask its platform team",
        )
    else:
        yield ok(f"roles: {policy} bounds each")


def ecs(plan: Plan) -> Iterator[Finding]:
    """Whether ECS has its service-linked role; it is one for the whole account.

    In an account that has never used ECS, the first cluster with capacity providers fails for want
    of it, and the stack rolls back.
    """
    try:
        plan.client("iam").get_role(RoleName=SERVICE_ROLE)
    except ClientError as error:
        if code_of(error) != "NoSuchEntity":
            raise
        yield problem(
            f"ecs: the account has no role {SERVICE_ROLE}, so its first cluster may fail",
            "run `longhaul bootstrap`, or `aws iam create-service-linked-role --aws-service-name "
            "ecs.amazonaws.com`",
        )
    else:
        yield ok(f"ecs: the account has the role {SERVICE_ROLE}")


def quotas(plan: Plan) -> Iterator[Finding]:
    """Whether the account may run the slots of all stages at once, or at least one job of each."""
    sizes = plan.settings.sizes.by_name()
    for spot, name in ((False, "Fargate On-Demand vCPU"), (True, "Fargate Spot vCPU")):
        stages = [
            each
            for each in plan.stages
            if each.advanced.spot is spot
            and each.advanced.engine == "fargate"
            and each.size in sizes
        ]
        if not stages:
            continue
        quota = find_quota(plan.target, "fargate", name)
        needed = sum(each.slots * sizes[each.size].cpu for each in stages) / 1024
        largest = max(sizes[each.size].cpu for each in stages) / 1024
        if quota is None:
            yield skipped(f"quotas: {name}s: the service does not say")
        elif quota < largest:
            yield problem(
                f"quotas: the account has {quota:g} {name}s, and one job needs {largest:g}: "
                "none would ever start",
                f"ask for at least {needed:g} in Service Quotas (AWS Fargate, {name} resource "
                "count), or make `size` smaller",
            )
        elif quota < needed:
            yield warning(
                f"quotas: the account has {quota:g} {name}s, and all slots at once need "
                f"{needed:g}: ECS will refuse the tasks beyond that, and their jobs wait",
                f"ask for {needed:g} in Service Quotas (AWS Fargate, {name} resource count); "
                f"until then set slots so that they need no more than {quota:g}",
            )
        else:
            yield ok(f"quotas: {quota:g} {name}s for the {needed:g} that all slots need")
    yield _concurrency(plan)


def _concurrency(plan: Plan) -> Finding:
    """Whether the stack's functions, and jobs on Lambda, have room: all share one limit."""
    slots = sum(each.slots for each in plan.stages)
    jobs = slots if plan.settings.sizes.tiny else 0
    # Beats and settles are short: a tenth of the slots at the same moment is already a lot.
    needed = jobs + _OWN_FUNCTIONS + slots // 10
    settings = plan.client("lambda").get_account_settings()
    limit = int(settings["AccountLimit"]["UnreservedConcurrentExecutions"])
    text = f"quotas: the account may run {limit} Lambda functions at once"
    if limit >= needed:
        return ok(f"{text}, for the {needed} that are needed")
    finding = problem if jobs and limit <= _OWN_FUNCTIONS else warning
    return finding(
        f"{text}, and {jobs} jobs of the size tiny with the stack's own need {needed}: jobs and "
        "heartbeats will be throttled",
        "ask for more in Service Quotas (AWS Lambda, Concurrent executions; a new account has 10), "
        "or make slots smaller",
    )


def stages(plan: Plan) -> Iterator[Finding]:
    """Whether the deployment would delete queues that are in use, or ask for those of others."""
    target = plan.target
    deployed = {stage.name: stage for stage in plan.deployed.stages} if plan.deployed else {}
    planned = {stage.name: stage for stage in plan.settings.stages}
    findings: list[Finding] = []
    for name, gone in deployed.items():
        if name not in planned:
            findings += _removed(target, gone)
    for name, stage in planned.items():
        prefix = queue_prefix(plan.settings.stack_name, stage)
        if name in deployed:
            before = deployed[name].queue_url.rpartition("/")[2].removesuffix("-jobs")
            if before != prefix:
                findings.append(
                    problem(
                        f"stage {name}: its queues {before}-… would be replaced, and the messages "
                        "in them deleted",
                        f'keep them with "queue_prefix": "{before}"',
                    )
                )
        elif _exists(target, f"{prefix}-jobs"):
            findings.append(
                problem(
                    f"stage {name}: the queue {prefix}-jobs is there already, and is not of the "
                    f"stack {target.stack}: its creation would fail",
                    "give the stage another name, or another queue_prefix",
                )
            )
    yield from findings or [
        ok(
            f"stack: {target.stack} keeps the queues of all its stages"
            if deployed
            else f"stack: {target.stack} is not deployed here yet"
        )
    ]


def tables(plan: Plan) -> Iterator[Finding]:
    """Whether the database that the deployment makes is free, and those that it names exist."""
    target = plan.target
    own = database_name(plan.settings.stack_name)
    findings: list[Finding] = []
    if makes_database(plan) and _has_database(target, own):
        findings.append(
            problem(
                f"tables: the Glue database {own} is there already, and is not of the stack "
                f"{target.stack}: its creation would fail",
                f"set own_database to false and name {own} in table_databases, so that jobs use it "
                "as it is; or choose another stack_name; or, if nobody needs the tables in it, "
                f"`aws glue delete-database --name {own}` (their files stay)",
            )
        )
    findings += [
        problem(
            f"tables: there is no Glue database {name}, which table_databases names: no job could "
            "write there",
            f"make it (`aws glue create-database --database-input Name={name}`), or take it out",
        )
        for name in plan.settings.table_databases
        if not _has_database(target, name)
    ]
    findings += [
        problem(
            f"tables: {own} has no table {name}, which optimized_tables names: it would end the "
            "deployment",
            "run the table's first job before, or take it out",
        )
        for name in plan.settings.optimized_tables
        if not _has_table(target, own, name)
    ]
    names = ", ".join(plan.settings.databases) or "none: jobs write no tables"
    yield from findings or [ok(f"tables: the Glue databases are {names}")]


def makes_database(plan: Plan) -> bool:
    """Whether the deployment makes the stack's own database."""
    own = database_name(plan.settings.stack_name)
    has_own = plan.deployed is not None and own in plan.deployed.paths.table_databases
    return plan.settings.own_database and not has_own


def _has_database(target: Target, name: str) -> bool:
    return _is_in_catalog(partial(target.client("glue").get_database, Name=name))


def _has_table(target: Target, database: str, name: str) -> bool:
    look = partial(target.client("glue").get_table, DatabaseName=database, Name=name)
    return _is_in_catalog(look)


def _is_in_catalog(look: Callable[[], object]) -> bool:
    try:
        look()
    except ClientError as error:
        if code_of(error) != "EntityNotFoundException":
            raise
        return False
    return True


def _exists(target: Target, queue: str) -> bool:
    try:
        target.client("sqs").get_queue_url(QueueName=queue)
    except ClientError as error:
        # SQS has two codes for it, by protocol.
        if code_of(error).endswith(("NonExistentQueue", "QueueDoesNotExist")):
            return False
        raise
    return True


def _removed(target: Target, stage: Stage) -> Iterator[Finding]:
    """Why the stage cannot be taken out yet."""
    sqs = target.client("sqs")
    work = []
    for url, what in (
        (stage.queue_url, "messages"),
        (stage.dead_letter_queue_url, "dead letters"),
    ):
        counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(_WAITING))["Attributes"]
        if count := sum(int(value) for value in counts.values()):
            work.append(f"{count} {what}")
    if rows := len(target.jobs.unfinished([stage.name])):
        work.append(f"{rows} unfinished jobs")
    if work:
        yield problem(
            f"stage {stage.name}: is not in the settings any more, and still has "
            f"{', '.join(work)}: the deployment would delete its queues with what is in them",
            "put it back with `advanced = { retired = true }`, and let it run empty "
            "(docs/operations.md, Take a stage out)",
        )
    elif not stage.retired:
        yield problem(
            f"stage {stage.name}: is not in the settings any more, and was not retired: a job that "
            "is sent or claimed during the deployment would be lost",
            "put it back with `advanced = { retired = true }`, deploy, and take it out with the "
            "next deployment",
        )
