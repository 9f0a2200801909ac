"""EC2's networks in memory: VPCs, gateways, endpoints, route tables and security groups."""

from collections.abc import Sequence
from typing import Any, ClassVar

from simulation.aws.service import Answer, Gate, Pages, Service, operation


class FakeEc2(Service):
    """A region that has its default VPC alone."""

    service = "ec2"
    paginators: ClassVar[Pages] = dict.fromkeys(
        (
            "describe_vpcs",
            "describe_internet_gateways",
            "describe_vpc_endpoints",
            "describe_security_groups",
            "describe_network_interfaces",
            "describe_route_tables",
        ),
        (("NextToken", "NextToken"),),
    )

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.vpcs = ["vpc-0123456789abcdef0"]
        self.gateways = ["igw-0123456789abcdef0"]
        # VpcEndpointId, VpcId, VpcEndpointType, ServiceName, State and Tags of each.
        self.endpoints: list[Answer] = []
        self.interfaces = 12
        self.route_tables: list[Answer] = []  # VpcId, Associations and Routes of each
        self.groups: list[Answer] = []  # GroupId, VpcId and Tags of each

    @operation
    def describe_vpcs(self, *, Filters: Sequence[Answer]) -> Answer:
        return {"Vpcs": _matching([{"VpcId": each} for each in self.vpcs], Filters)}

    @operation
    def describe_internet_gateways(self, *, Filters: Sequence[Answer]) -> Answer:
        found = [{"InternetGatewayId": each} for each in self.gateways]
        return {"InternetGateways": _matching(found, Filters)}

    @operation
    def describe_vpc_endpoints(self, *, Filters: Sequence[Answer]) -> Answer:
        return {"VpcEndpoints": _matching(self.endpoints, Filters)}

    @operation
    def describe_network_interfaces(self, *, Filters: Sequence[Answer]) -> Answer:
        found = [{"NetworkInterfaceId": f"eni-{n:017x}"} for n in range(self.interfaces)]
        return {"NetworkInterfaces": _matching(found, Filters)}

    @operation
    def describe_route_tables(self, *, Filters: Sequence[Answer]) -> Answer:
        return {"RouteTables": _matching(self.route_tables, Filters)}

    @operation
    def describe_security_groups(self, *, Filters: Sequence[Answer]) -> Answer:
        return {"SecurityGroups": _matching(self.groups, Filters)}


_MEMBERS = {"vpc-id": "VpcId", "vpc-endpoint-type": "VpcEndpointType"}


def _matching(found: Sequence[Answer], filters: Sequence[Answer]) -> list[Answer]:
    return [
        each
        for each in found
        if all(_value(each, filter_["Name"]) in filter_["Values"] for filter_ in filters)
    ]


def _value(resource: Answer, name: str) -> Any:
    if name.startswith("tag:"):
        tags = {each["Key"]: each["Value"] for each in resource["Tags"]}
        return tags.get(name.removeprefix("tag:"))
    return resource[_MEMBERS[name]]
