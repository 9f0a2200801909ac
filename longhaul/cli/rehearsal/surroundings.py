"""What the account is set to, and a template does not show."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from botocore.exceptions import ClientError

from longhaul.adapters.errors import code_of
from longhaul.cli.checks.account import find_quota, lambda_limit
from longhaul.cli.checks.deploying import Plan
from longhaul.cli.rehearsal.answer import Answer, Question, good, odd, unasked
from longhaul.cli.target import Target

_EMR_ROLE: Final = "AWSServiceRoleForAmazonEMRServerless"
# Beats and settles of a stack, beside whatever else the account runs.
_FUNCTIONS: Final = 100
_REQUEST: Final = "ask for more in Service Quotas"


def questions(plan: Plan) -> Iterator[Question]:
    target = plan.target
    yield Question(
        "guardduty",
        "whether GuardDuty adds a container to each task, and an endpoint to the VPC",
        ("ecs:ListAccountSettings",),
        partial(guard_duty, target),
    )
    if plan.settings.network.vpc_id is not None:
        yield Question(
            "subnets",
            "whether the subnets have an address for each slot",
            ("ec2:DescribeSubnets",),
            partial(addresses, plan),
        )
    yield Question(
        "functions",
        "how many functions may run at once in the account",
        ("lambda:GetAccountSettings",),
        partial(functions, target),
    )
    if plan.settings.emr_serverless is not None:
        yield Question(
            "emr serverless",
            "its release, its vCPUs, and its service-linked role",
            (
                "elasticmapreduce:ListReleaseLabels",
                "servicequotas:ListServiceQuotas",
                "iam:GetRole",
            ),
            partial(emr_serverless, plan),
        )
    yield Question(
        "config",
        "whether AWS Config records each task's network interface, which costs",
        ("config:DescribeConfigurationRecorders", "config:DescribeConfigurationRecorderStatus"),
        partial(config, target),
    )


def guard_duty(target: Target) -> Iterator[Answer]:
    pages = (
        target.client("ecs")
        .get_paginator("list_account_settings")
        .paginate(name="guardDutyActivate", effectiveSettings=True)
    )
    values = {each["value"] for page in pages for each in page["settings"]}
    if not values:
        yield unasked("guardDutyActivate", "ECS names no such setting")
    elif values == {"off"}:
        yield good("guardDutyActivate", "off")
    else:
        yield odd(
            "guardDutyActivate",
            f"{', '.join(sorted(values))}: each task gets a container of GuardDuty's, which takes "
            "some of its memory",
            "expect an endpoint and a security group of GuardDuty's in the stack's VPC: `longhaul "
            "destroy` cannot remove the VPC before these are deleted",
        )


def addresses(plan: Plan) -> Iterator[Answer]:
    named = list(plan.settings.network.subnet_ids)
    pages = plan.target.client("ec2").get_paginator("describe_subnets").paginate(SubnetIds=named)
    free = sum(each["AvailableIpAddressCount"] for page in pages for each in page["Subnets"])
    slots = sum(stage.slots for stage in plan.settings.stages if not stage.retired)
    asked = f"free addresses of {', '.join(named)}"
    if free >= slots:
        yield good(asked, f"{free} for {slots} slots")
    else:
        yield odd(
            asked,
            f"{free}, and {slots} slots need one each",
            "name larger subnets, or lower the slots",
        )


def functions(target: Target) -> Iterator[Answer]:
    limit = lambda_limit(target)
    if limit >= _FUNCTIONS:
        yield good("concurrent executions", f"{limit}")
    else:
        yield odd(
            "concurrent executions",
            f"{limit}: all functions of the account share them, and beats and settles come in "
            "groups",
            f"{_REQUEST} (AWS Lambda, Concurrent executions; a new account has 10)",
        )


def emr_serverless(plan: Plan) -> Iterator[Answer]:
    settings = plan.settings.emr_serverless
    assert settings is not None  # noqa: S101 - the question is asked with it alone
    target = plan.target
    label = settings.release_label
    if label in _releases(target.client("emr"), label):
        yield good(f"release {label}", "is one of this Region")
    else:
        yield odd(
            f"release {label}",
            "is not among those that EMR lists for this Region",
            "look whether EMR Serverless has it there, or choose another release_label",
        )
    name = "Max concurrent vCPUs per account"
    quota = find_quota(target, "emr-serverless", name)
    if quota is None:
        yield unasked(name, "Service Quotas does not say")
    elif quota >= settings.max_vcpu:
        yield good(name, f"{quota:g}, and the application may use {settings.max_vcpu}")
    else:
        yield odd(
            name,
            f"{quota:g}, and the application may use {settings.max_vcpu}: job runs will wait",
            f"{_REQUEST} (Amazon EMR Serverless, {name}), or lower max_vcpu",
        )
    try:
        target.client("iam").get_role(RoleName=_EMR_ROLE)
    except ClientError as error:
        if code_of(error) != "NoSuchEntity":
            raise
        yield odd(
            f"role {_EMR_ROLE}",
            "the account has none",
            "the first application makes it, if the role that deploys may "
            "iam:CreateServiceLinkedRole; or `aws iam create-service-linked-role "
            "--aws-service-name ops.emr-serverless.amazonaws.com`",
        )
    else:
        yield good(f"role {_EMR_ROLE}", "the account has it")


def _releases(emr: Any, label: str) -> Iterator[str]:  # noqa: ANN401 - one of boto3's clients
    given: dict[str, Any] = {"Filters": {"Prefix": label}}
    while True:
        page = emr.list_release_labels(**given)
        yield from page.get("ReleaseLabels", ())
        if not page.get("NextToken"):
            return
        given["NextToken"] = page["NextToken"]


def config(target: Target) -> Iterator[Answer]:
    client = target.client("config")
    status = client.describe_configuration_recorder_status()["ConfigurationRecordersStatus"]
    recording = {each["name"] for each in status if each.get("recording")}
    recorders = client.describe_configuration_recorders()["ConfigurationRecorders"]
    costly = [each["name"] for each in recorders if each["name"] in recording and _records(each)]
    if costly:
        yield odd(
            "records of network interfaces",
            f"the recorder {', '.join(costly)} makes them: each task's interface is one of them",
            "leave AWS::EC2::NetworkInterface out of what it records, or expect 0.01 to 0.02 USD "
            "a task",
        )
    else:
        yield good("records of network interfaces", "none are made")


def _records(recorder: Any) -> bool:  # noqa: ANN401 - of an answer
    """Whether the recorder notes network interfaces as they change."""
    interface = "AWS::EC2::NetworkInterface"
    group = recorder.get("recordingGroup", {})
    if interface in group.get("exclusionByResourceTypes", {}).get("resourceTypes", ()):
        return False
    strategy = group.get("recordingStrategy", {}).get("useOnly")
    if strategy == "EXCLUSION_BY_RESOURCE_TYPES":
        return True
    return bool(group.get("allSupported")) or interface in group.get("resourceTypes", ())
