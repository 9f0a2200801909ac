"""EC2's networks in memory: endpoints and route tables."""

from collections.abc import Sequence
from typing import ClassVar

from simulation.aws.service import Answer, Gate, Pages, Service, operation


class FakeEc2(Service):
    service = "ec2"
    paginators: ClassVar[Pages] = dict.fromkeys(
        ("describe_vpc_endpoints", "describe_route_tables"), (("NextToken", "NextToken"),)
    )

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.endpoints: list[Answer] = []  # VpcId and ServiceName of each
        self.route_tables: list[Answer] = []  # VpcId, Associations and Routes of each

    @operation
    def describe_vpc_endpoints(self, *, Filters: Sequence[Answer]) -> Answer:
        return {"VpcEndpoints": _of_vpc(self.endpoints, Filters)}

    @operation
    def describe_route_tables(self, *, Filters: Sequence[Answer]) -> Answer:
        return {"RouteTables": _of_vpc(self.route_tables, Filters)}


def _of_vpc(found: Sequence[Answer], filters: Sequence[Answer]) -> list[Answer]:
    (by_vpc,) = filters
    if by_vpc["Name"] != "vpc-id":
        raise NotImplementedError(by_vpc["Name"])
    return [each for each in found if each["VpcId"] in by_vpc["Values"]]
