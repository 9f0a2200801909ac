"""Where tasks run: a VPC that costs nothing while idle, or the one that the settings name."""

from typing import Final

from aws_cdk import Tags
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from longhaul.cdk.grants import for_this_account
from longhaul.cdk.log_group import LogGroup
from longhaul.cdk.nag import acknowledge
from longhaul.config.errors import SettingsError
from longhaul.config.settings import Settings

# What Lambda does under a function's role before it runs in a VPC:
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
_INTERFACES: Final = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
]


class Network(Construct):
    """Subnets and a security group without ingress.

    The VPC of our own has public subnets only. A NAT gateway costs more per month than many jobs,
    and a task without ingress rules accepts no connection, with or without a public IP. S3 and
    DynamoDB go through gateway endpoints, which are free.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        vpc: ec2.IVpc | None,
        vpc_subnets: ec2.SubnetSelection | None,
    ) -> None:
        """`vpc`: a construct's, in the place of what the settings say; `vpc_subnets` are of it."""
        super().__init__(scope, id_)
        network = settings.network
        self.assign_public_ip = network.assign_public_ip
        if vpc is not None:
            wanted = vpc_subnets or ec2.SubnetSelection()
            selected = vpc.select_subnets(
                availability_zones=wanted.availability_zones,
                one_per_az=wanted.one_per_az,
                subnet_filters=wanted.subnet_filters,
                subnet_group_name=wanted.subnet_group_name,
                subnet_type=wanted.subnet_type,
                subnets=wanted.subnets,
            )
            self.subnet_ids = selected.subnet_ids
            self.assign_public_ip = selected.has_public
        elif network.vpc_id is None:
            vpc = self._own_vpc(settings)
            self.subnet_ids = [subnet.subnet_id for subnet in vpc.public_subnets]
        else:
            # The type requires zones; nothing here uses them.
            vpc = ec2.Vpc.from_vpc_attributes(
                self, "Vpc", vpc_id=network.vpc_id, availability_zones=["unknown"]
            )
            self.subnet_ids = list(network.subnet_ids)
        self.security_group = ec2.SecurityGroup(
            self,
            "Tasks",
            vpc=vpc,
            description="Longhaul tasks: no ingress",
            allow_all_outbound=True,
        )

    def hold(self, function: lambda_.Function) -> None:
        """Let the function run in the subnets of the tasks."""
        resource = function.node.default_child
        assert isinstance(resource, lambda_.CfnFunction)  # noqa: S101 - for mypy
        resource.vpc_config = lambda_.CfnFunction.VpcConfigProperty(
            subnet_ids=self.subnet_ids,
            security_group_ids=[self.security_group.security_group_id],
        )
        function.add_to_role_policy(
            iam.PolicyStatement(sid="InterfacesInTheVpc", actions=_INTERFACES, resources=["*"])
        )
        if function.role is not None:
            acknowledge(function.role, "IAM5[Resource::*]", "Lambda's interfaces know no resource.")

    def _own_vpc(self, settings: Settings) -> ec2.Vpc:
        zones = list(settings.network.zones)
        if settings.functions_in_vpc:
            raise SettingsError(
                f"{self.node.path}: functions_in_vpc needs a VPC of yours (network.vpc_id and "
                "subnet_ids): the stack's own has no NAT, so a function in it reaches nothing"
            )
        vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=None if zones else settings.network.availability_zones,
            availability_zones=zones or None,
            nat_gateways=0,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="Public",
                    subnet_type=ec2.SubnetType.PUBLIC,
                    cidr_mask=20,
                    map_public_ip_on_launch=False,
                )
            ],
            # True would add a custom resource. Nothing uses the default security group.
            restrict_default_security_group=False,
        )
        for named in (vpc, *vpc.public_subnets):
            # The path is what CDK names them after. Without the construct's own id, where that
            # says nothing, they keep the names that are deployed.
            Tags.of(named).add("Name", named.node.path.replace("/Default/", "/"))
        if settings.network.flow_logs:
            log_group = LogGroup(self, "FlowLogs", settings=settings)
            role = iam.Role(
                self,
                "FlowLogsRole",
                assumed_by=for_this_account(self, "vpc-flow-logs.amazonaws.com"),
            )
            vpc.add_flow_log(
                "Flows", destination=ec2.FlowLogDestination.to_cloud_watch_logs(log_group, role)
            )
        else:
            acknowledge(
                vpc,
                "VPC7",
                "Nothing listens in this VPC, and flow logs would be its only running cost.",
            )
        vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        vpc.add_gateway_endpoint("DynamoDb", service=ec2.GatewayVpcEndpointAwsService.DYNAMODB)
        return vpc
