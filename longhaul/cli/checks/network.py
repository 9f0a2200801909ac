"""The VPC of a stack: room for it and its tasks, their way to AWS, and what is left in it."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from longhaul.cli.checks.account import find_quota
from longhaul.cli.checks.finding import Finding, ok, problem, skipped, warning
from longhaul.cli.checks.plan import Plan
from longhaul.cli.target import Target
from longhaul.domain.secret_refs import SecretRef

VPC: Final = "AWS::EC2::VPC"
# What a stack makes: the name of the quota, how many, and how EC2 lists those that are there.
_MADE: Final = (
    ("VPCs per Region", 1, "describe_vpcs", "Vpcs", ()),
    ("Internet gateways per Region", 1, "describe_internet_gateways", "InternetGateways", ()),
    (
        "Gateway VPC endpoints per Region",
        2,
        "describe_vpc_endpoints",
        "VpcEndpoints",
        ({"Name": "vpc-endpoint-type", "Values": ["Gateway"]},),
    ),
)
# GuardDuty's tag on what it makes in a VPC whose tasks it watches.
# https://docs.aws.amazon.com/guardduty/latest/ug/runtime-monitoring-agent-resource-clean-up.html
_OF_GUARDDUTY: Final = {"Name": "tag:GuardDutyManaged", "Values": ["true"]}


def room_for_vpc(plan: Plan) -> Iterator[Finding]:
    """Whether the region has room for the stack's own VPC, its gateway and its endpoints."""
    if plan.settings.network.vpc_id is not None:
        return
    if plan.deployed is not None and plan.target.physical(VPC):
        return
    ec2 = plan.client("ec2")
    for name, needed, operation, member, filters in _MADE:
        quota = find_quota(plan.target, "vpc", name)
        there = len(_listed(ec2, operation, member, list(filters)))
        if quota is None:
            yield skipped(f"network: {name}: the service does not say")
        elif there + needed > quota:
            yield problem(
                f"network: {name}: {there} of {quota:g} are taken, and the stack makes {needed}: "
                "the deployment would roll back",
                f"ask for more in Service Quotas (Amazon VPC, {name}), delete one that nobody "
                "needs, or let tasks run in a VPC that is there (network.vpc_id and subnet_ids)",
            )
        else:
            yield ok(f"network: {name}: {there} of {quota:g} are taken")


def room_for_tasks(plan: Plan) -> Iterator[Finding]:
    """Whether there is a network interface for each task.

    Each has a public address of Amazon's with it, which is no Elastic IP, and needs no NAT.
    """
    name = "Network interfaces per Region"
    quota = find_quota(plan.target, "vpc", name)
    if quota is None:
        yield skipped(f"network: {name}: the service does not say")
        return
    slots = sum(each.slots for each in plan.stages if each.advanced.engine == "fargate")
    there = len(_listed(plan.client("ec2"), "describe_network_interfaces", "NetworkInterfaces", []))
    if there + slots > quota:
        yield warning(
            f"network: {name}: {there} of {quota:g} are taken, and {slots} slots need one each: "
            "ECS will not start the tasks beyond that, and their jobs wait",
            f"ask for more in Service Quotas (Amazon VPC, {name}), or lower the slots",
        )
    else:
        yield ok(f"network: {name}: {there} of {quota:g} are taken, for {slots} slots")


def ways_to_services(plan: Plan) -> Iterator[Finding]:
    """Whether each subnet of the settings leads to the services that tasks need.

    Without them no task starts: its image comes from ECR and S3, and its log goes to CloudWatch.
    """
    settings, network = plan.settings, plan.settings.network
    if network.vpc_id is None:
        return
    needed = {"ecr.api", "ecr.dkr", "s3", "logs", "dynamodb"}
    needed |= {"glue"} if settings.databases else set()
    needed |= {
        SecretRef.parse(secret).service
        for stage in plan.stages
        for secret in stage.advanced.secrets.values()
    }
    needed |= {"sqs", "states", "ecs"} if settings.functions_in_vpc else set()
    # A function gets no address.
    has_address = network.assign_public_ip and not settings.functions_in_vpc
    ec2 = plan.client("ec2")
    of_vpc = [{"Name": "vpc-id", "Values": [network.vpc_id]}]
    tables = _listed(ec2, "describe_route_tables", "RouteTables", of_vpc)
    closed = [
        subnet
        for subnet in network.subnet_ids
        if not _leads_out(subnet, tables, has_address=has_address)
    ]
    endpoints = _listed(ec2, "describe_vpc_endpoints", "VpcEndpoints", of_vpc) if closed else []
    # The whole name begins otherwise in China.
    ends = {each["ServiceName"].partition(f".{plan.target.region}.")[2] for each in endpoints}
    missing = sorted(needed - ends)
    if closed and missing:
        yield warning(
            f"network: {', '.join(closed)} of {network.vpc_id} have no way to the internet, and the"
            f" VPC has no endpoint for {', '.join(missing)}: jobs are refused or wait there",
            "add the endpoints with private DNS (gateways for s3 and dynamodb), or a NAT; nothing"
            " is to do where a private zone leads to one elsewhere",
        )
    else:
        yield ok(f"network: the subnets lead to {', '.join(sorted(needed))}")


def _leads_out(subnet: str, tables: Sequence[dict[str, Any]], *, has_address: bool) -> bool:
    """Whether the subnet has a default route; through an internet gateway with an address alone."""
    own = [each for each in tables if any(a.get("SubnetId") == subnet for a in _joined(each))]
    main = [each for each in tables if any(a.get("Main") for a in _joined(each))]
    routes = [
        route
        for table in own or main
        for route in table["Routes"]
        if route.get("DestinationCidrBlock") == "0.0.0.0/0" and route.get("State") != "blackhole"
    ]
    return any(has_address or not route.get("GatewayId", "").startswith("igw-") for route in routes)


def _joined(table: dict[str, Any]) -> list[dict[str, Any]]:
    associations: list[dict[str, Any]] = table["Associations"]
    return associations


def left_behind(target: Target) -> Iterator[Finding]:
    """Whether GuardDuty has left an endpoint or a group in the VPC, which then stays."""
    vpcs = sorted(target.physical(VPC).values())
    if not vpcs:
        return
    ec2 = target.client("ec2")
    filters = [{"Name": "vpc-id", "Values": vpcs}, _OF_GUARDDUTY]
    endpoints = _listed(ec2, "describe_vpc_endpoints", "VpcEndpoints", filters)
    groups = _listed(ec2, "describe_security_groups", "SecurityGroups", filters)
    names = [each["VpcEndpointId"] for each in endpoints if each["State"] != "deleted"]
    group_ids = [each["GroupId"] for each in groups]
    if not (names or group_ids):
        yield ok("network: GuardDuty has nothing in the VPC")
        return
    commands = [f"`aws ec2 delete-security-group --group-id {each}`" for each in group_ids]
    if names:
        commands.insert(0, f"`aws ec2 delete-vpc-endpoints --vpc-endpoint-ids {' '.join(names)}`")
    yield problem(
        f"network: GuardDuty has left {', '.join([*names, *group_ids])} in the VPC: "
        "CloudFormation could not delete it",
        # The group is in use until the endpoint's interfaces are gone.
        ", and some minutes later ".join(commands),
    )


def _listed(ec2: Any, operation: str, member: str, filters: list[Any]) -> list[dict[str, Any]]:  # noqa: ANN401 - one of boto3's clients
    pages = ec2.get_paginator(operation).paginate(Filters=filters)
    return [each for page in pages for each in page[member]]
