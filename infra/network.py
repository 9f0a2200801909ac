"""Where tasks run: a VPC that costs nothing while idle, or an existing one that the settings name."""

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from infra import settings
from infra.nag import acknowledge


class Network(Construct):
    """Subnets and a security group without ingress.

    Our own VPC has public subnets only: a NAT gateway would cost more per month than many a job, and a task without ingress rules is as closed with a
    public IP as without. S3 and DynamoDB go through gateway endpoints, which are free.
    """

    def __init__(self, scope: Construct, id_: str, *, network: settings.Network) -> None:
        super().__init__(scope, id_)
        self.assign_public_ip = network.assign_public_ip
        vpc: ec2.IVpc
        if network.vpc_id is None:
            vpc = self._own_vpc(network.availability_zones)
            self.subnet_ids = [subnet.subnet_id for subnet in vpc.public_subnets]
        else:
            # The zones are asked for by the type, and used by nothing here.
            vpc = ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id=network.vpc_id, availability_zones=["unknown"])
            self.subnet_ids = list(network.subnet_ids)
        self.security_group = ec2.SecurityGroup(
            self, "Tasks", vpc=vpc, description="Longhaul tasks: no ingress", allow_all_outbound=True
        )

    def _own_vpc(self, availability_zones: int) -> ec2.Vpc:
        vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=availability_zones,
            nat_gateways=0,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="Public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=20, map_public_ip_on_launch=False
                )
            ],
            # True would bring a custom resource. Nothing uses the default security group.
            restrict_default_security_group=False,
        )
        acknowledge(vpc, "VPC7", "Nothing listens in this VPC, and flow logs would be its only running cost.")
        vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        vpc.add_gateway_endpoint("DynamoDb", service=ec2.GatewayVpcEndpointAwsService.DYNAMODB)
        return vpc
