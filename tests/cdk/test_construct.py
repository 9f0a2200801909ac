"""The construct in stacks of other people's apps."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from aws_cdk import (
    App,
    Environment,
    Stack,
)  # after `longhaul.cdk`, which tells jsii where Node is
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Template

import longhaul.cdk
from longhaul.cdk import (
    AdvancedStageDeployment,
    Longhaul,
    NetworkSettings,
    Settings,
    SettingsError,
    StageDeployment,
    Trigger,
    roles,
)
from longhaul.core.metrics import NoticeMetric, StageMetric, SweeperMetric
from tests.cdk.synthesis import NO_COPIES, as_list, readable
from tests.layers import ROOT
from tests.public_names import members, undocumented

NAMES = {
    "AWS::CloudWatch::Dashboard": "DashboardName",
    "AWS::ECS::TaskDefinition": "Family",
    "AWS::Events::Rule": "Name",
    "AWS::Glue::Database": "DatabaseInput",
    "AWS::IAM::Role": "RoleName",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::S3::Bucket": "BucketName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::SQS::Queue": "QueueName",
    "AWS::Scheduler::Schedule": "Name",
    "AWS::StepFunctions::StateMachine": "StateMachineName",
}

NOTIFYING = ("dispatcher", "settle", "sweeper")


@pytest.fixture(scope="module")
def stack() -> Stack:
    """Someone's stack, with a VPC and two deployments, one of them in the VPC."""
    stack = theirs()
    vpc = ec2.Vpc(stack, "TheirVpc", nat_gateways=1)
    boundary = iam.ManagedPolicy.from_managed_policy_name(stack, "Boundary", "their-boundary")
    Longhaul(
        stack,
        "Nightly",
        settings=Settings(stages=(StageDeployment(slots=3), StageDeployment(name="reports"))),
        vpc=vpc,
        permissions_boundary=boundary,
    )
    Longhaul(stack, "Hourly", settings={"architecture": "x86_64"})
    return stack


@pytest.fixture(scope="module")
def template(stack: Stack) -> dict[str, Any]:
    return dict(Template.from_stack(stack).to_json())


def stage_with(**advanced: Any) -> StageDeployment:
    return StageDeployment(advanced=AdvancedStageDeployment(**advanced))


def theirs(name: str = "Theirs", app: App | None = None) -> Stack:
    env = Environment(account="123456789012", region="eu-central-1")
    return Stack(app or App(context=NO_COPIES), name, env=env)


@pytest.fixture
def empty() -> Stack:
    return theirs()


def resources(template: Mapping[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {
        name: resource["Properties"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == kind
    }


def child(stack: Stack, name: str) -> Longhaul:
    found = stack.node.find_child(name)
    assert isinstance(found, Longhaul)
    return found


def test_two_in_one_stack_share_no_physical_name(template: dict[str, Any]) -> None:
    for kind, setting in NAMES.items():
        names = [
            json.dumps(each[setting])
            for each in resources(template, kind).values()
            if setting in each
        ]
        assert len(names) == len(set(names)), kind


def test_the_same_name_twice_is_refused() -> None:
    app = App(context=NO_COPIES)
    ours = Settings(stack_name="Ours")
    Longhaul(theirs("One", app), "Longhaul", settings=ours)

    with pytest.raises(SettingsError, match=r"^Two/Longhaul: stack_name: another .* 'Ours'"):
        Longhaul(theirs("Two", app), "Longhaul", settings=ours)


def test_tasks_run_in_the_private_subnets_of_a_given_vpc(
    stack: Stack, template: dict[str, Any]
) -> None:
    vpc = stack.node.find_child("TheirVpc")
    assert isinstance(vpc, ec2.Vpc)
    private = {stack.resolve(each.subnet_id)["Ref"] for each in vpc.private_subnets}
    (machine,) = (
        json.dumps(each["DefinitionString"])
        for name, each in resources(template, "AWS::StepFunctions::StateMachine").items()
        if name.startswith("Nightly")
    )

    assert all(f'"Ref": "{subnet}"' in machine for subnet in private)
    assert "DISABLED" in machine
    # Theirs, and the own one of the other deployment.
    assert len(resources(template, "AWS::EC2::VPC")) == 2


def test_a_vpc_and_the_settings_network_exclude_each_other() -> None:
    stack, settings = theirs(), Settings(network=NetworkSettings())
    with pytest.raises(SettingsError, match=r"^Theirs/Longhaul: vpc: network "):
        Longhaul(stack, "Longhaul", settings=settings, vpc=ec2.Vpc(stack, "Vpc"))
    with pytest.raises(SettingsError, match=r"^Theirs/Ours/Network: functions_in_vpc needs a VPC"):
        Longhaul(stack, "Ours", settings=Settings(functions_in_vpc=True))


def test_every_role_of_the_construct_has_the_boundary(template: dict[str, Any]) -> None:
    roles = resources(template, "AWS::IAM::Role")
    bound = {name for name, role in roles.items() if "PermissionsBoundary" in role}

    assert bound == {name for name in roles if name.startswith("Nightly")}


def test_names_of_roles_fit_and_differ_whatever_their_stacks_are_called() -> None:
    prefix = "the-prefix-of-a-platform-team-"
    names = set()
    for stack in (theirs("A" * 120), theirs("A" * 119)):
        for id_ in ("Role", "WithAnIdOfItsOwn" * 5):
            iam.Role(stack, id_, assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        roles.apply_names(stack, Settings(role_name_prefix=prefix))
        found = resources(Template.from_stack(stack).to_json(), "AWS::IAM::Role").values()
        names |= {role["RoleName"] for role in found}

    assert len(names) == 4
    longest = 64 - len("ap-southeast-1") + len("eu-central-1")
    assert all(name.startswith(prefix) and len(name) <= longest for name in names)


def test_buckets_and_keys_that_the_same_app_makes_need_no_names(empty: Stack) -> None:
    key = kms.Key(empty, "Key")
    raw, clean = s3.Bucket(empty, "Raw"), s3.Bucket(empty, "Clean", encryption_key=key)
    Longhaul(
        empty,
        "Longhaul",
        settings=Settings(
            input_buckets=(raw.bucket_name,),
            output_buckets=(clean.bucket_name,),
            kms_keys={clean.bucket_name: (key.key_arn,)},
        ),
    )
    template = Template.from_stack(empty).to_json()

    (variables,) = (
        function["Environment"]["Variables"]
        for function in resources(template, "AWS::Lambda::Function").values()
        if function["Handler"] == "functions.dispatcher.lambda_handler"
    )
    for bucket in (raw, clean):
        assert json.dumps(empty.resolve(bucket.bucket_name)) in json.dumps(variables)
    rights = {
        statement.get("Sid"): statement
        for policy in resources(template, "AWS::IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
    }
    assert json.dumps(empty.resolve(raw.bucket_name)) in json.dumps(rights["ReadObjects"])
    encrypt = rights["WriteEncryptedEuCentral1"]
    assert encrypt["Resource"] == empty.resolve(key.key_arn)
    via = encrypt["Condition"]["StringEquals"]["kms:ViaService"]
    assert via == "s3.eu-central-1.amazonaws.com"


def test_queues_topics_and_buses_of_the_same_app_are_told_when_jobs_have_ended(
    empty: Stack,
) -> None:
    key = kms.Key(empty, "Key")
    queue = sqs.Queue(empty, "Queue", encryption_master_key=key)
    topic, bus = sns.Topic(empty, "Topic"), events.EventBus(empty, "Bus")
    usual = events.EventBus.from_event_bus_name(empty, "Usual", "default")
    arns = [queue.queue_arn, topic.topic_arn, bus.event_bus_arn, usual.event_bus_arn]
    stages = ("queued", "published", "sent", "usual")
    Longhaul(
        empty,
        "Longhaul",
        settings=Settings(stages=tuple(StageDeployment(name=name) for name in stages)),
        notify=dict(zip(stages, (queue, topic, bus, usual), strict=True)),
    )
    template = Template.from_stack(empty).to_json()

    functions = [
        each
        for each in resources(template, "AWS::Lambda::Function").values()
        if each["Handler"] in {f"functions.{name}.lambda_handler" for name in NOTIFYING}
    ]
    policies = resources(template, "AWS::IAM::Policy").values()
    for function in functions:
        variables = readable(function["Environment"]["Variables"]["LONGHAUL_SETTINGS"])
        (role_id, _) = function["Role"]["Fn::GetAtt"]
        statements = json.dumps(
            [each["PolicyDocument"] for each in policies if {"Ref": role_id} in each["Roles"]]
        )
        for arn in arns:
            assert readable(empty.resolve(arn)) in variables
            assert json.dumps(empty.resolve(arn)) in statements
        assert json.dumps(empty.resolve(key.key_arn)) in statements
    assert len(functions) == len(NOTIFYING)


TOLD = {"notify": "arn:aws:sns:eu-central-1:123456789012:ended"}


@pytest.mark.parametrize(
    ("told", "given", "message"),
    [
        (TOLD, "other", "notify: there is no stage 'other'; there are: main"),
        (TOLD, "main", "notify: the settings of stage 'main' name one too; give one of them"),
        ({"openlineage": True}, None, "stage 'main' has openlineage, and nothing to send"),
        ({"tree_ended": True}, None, "stage 'main' has tree_ended, and nothing to send"),
    ],
)
def test_a_stage_that_notifies_is_known_and_notifies_one(
    empty: Stack, told: dict[str, Any], given: str | None, message: str
) -> None:
    notify = {given: sns.Topic(empty, "Topic")} if given else None
    with pytest.raises(SettingsError, match=message):
        Longhaul(empty, "Longhaul", settings=Settings(stages=(stage_with(**told),)), notify=notify)


def test_a_bucket_of_the_same_app_starts_a_job_for_each_of_its_objects(empty: Stack) -> None:
    raw = s3.Bucket(empty, "Raw", event_bridge_enabled=True)
    request = {
        "job": "sql",
        "params": {"query": "SELECT * FROM raw"},
        "inputs": {"raw": "{object}"},
        "output": "s3://<data-bucket>/clean/{object.id}/",
    }
    trigger = Trigger(bucket=raw.bucket_name, prefix="incoming/", request=request)
    Longhaul(
        empty,
        "Longhaul",
        settings=Settings(
            input_buckets=(raw.bucket_name,), stages=(stage_with(on_object=trigger),)
        ),
    )

    (pattern,) = (
        rule["EventPattern"]
        for rule in resources(Template.from_stack(empty).to_json(), "AWS::Events::Rule").values()
        if rule.get("EventPattern", {}).get("source") == ["aws.s3"]
    )
    assert pattern["detail"]["bucket"]["name"] == [empty.resolve(raw.bucket_name)]


def grants(stack: Stack, kind: str, name: str) -> list[dict[str, Any]]:
    """The statements of the policies of that role or user."""
    found: list[dict[str, Any]] = [
        readable(statement)
        for policy in resources(Template.from_stack(stack).to_json(), "AWS::IAM::Policy").values()
        if stack.resolve(name) in policy.get(kind, [])
        for statement in policy["PolicyDocument"]["Statement"]
    ]
    return found


def test_a_producer_may_send_to_the_granted_stage_alone(empty: Stack) -> None:
    longhaul = Longhaul(empty, "Longhaul", settings={"stages": [{}, {"name": "reports"}]})
    one, both = iam.User(empty, "One"), iam.User(empty, "Both")

    longhaul.grant_submit(one, "reports").assert_success()
    longhaul.grant_submit(both).assert_success()

    allowed = [
        {
            "Action": "sqs:SendMessage",
            "Effect": "Allow",
            "Resource": readable(empty.resolve(longhaul.queue(name).queue_arn)),
        }
        for name in ("main", "reports")
    ]
    assert grants(empty, "Users", one.user_name) == allowed[1:]
    assert grants(empty, "Users", both.user_name) == allowed


def test_a_program_with_the_client_gets_what_its_page_names(empty: Stack) -> None:
    role = iam.Role(empty, "Program", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))

    Longhaul(empty, "Longhaul").grant_client(role)

    statements = grants(empty, "Roles", role.role_name)
    granted = {action for each in statements for action in as_list(each["Action"])}
    rights = (ROOT / "docs" / "construct.md").read_text().partition("### Rights")[2]
    assert granted == set(re.findall(r"`((?:cloudformation|dynamodb|lambda|s3|sqs):\w+)`", rights))


def test_parts_are_found_by_stage_and_engine(stack: Stack) -> None:
    nightly = child(stack, "Nightly")

    assert stack.resolve(nightly.dead_letter_queue("reports").queue_arn) != stack.resolve(
        nightly.queue("reports").queue_arn
    )
    assert nightly.job_role("reports") is nightly.job_roles("reports")["fargate"]
    with pytest.raises(ValueError, match=r"no stage 'nightly'; there are: main, reports"):
        nightly.queue("nightly")
    with pytest.raises(ValueError, match=r"no engine 'lambda'; there are: fargate"):
        nightly.job_role("main", "lambda")


@pytest.mark.parametrize("metric", [*StageMetric, *NoticeMetric])
def test_a_metric_of_a_stage_is_found_by_name(stack: Stack, metric: StageMetric) -> None:
    longhaul = child(stack, "Nightly")
    found = longhaul.metric(metric.value, stage="main", label="Theirs")

    assert (found.namespace, found.dimensions) == (longhaul.name, {"stage": "main"})
    assert (found.metric_name, found.label) == (metric.value, "Theirs")


def test_metrics_without_a_stage_are_the_sweepers(stack: Stack) -> None:
    longhaul = child(stack, "Nightly")

    assert longhaul.metric(SweeperMetric.REPAIRS).dimensions == {"service": "sweeper"}
    with pytest.raises(ValueError, match=r"^there is no metric 'Backlog' \(a metric of a stage"):
        longhaul.metric("Backlog")


# What CDK apps may import. A change here is one that they notice.


def test_every_public_name_is_documented() -> None:
    assert longhaul.cdk.__doc__
    assert undocumented(longhaul.cdk) == []


def test_what_a_cdk_app_imports() -> None:
    assert members(longhaul.cdk) == {
        "AdvancedStageDeployment": "",
        "EmrSettings": "",
        "FollowOnSettings": "",
        "LeaseSettings": "",
        "Longhaul": (
            "data_bucket leases_table state_machine alarms_topic name job_roles job_role queue "
            "dead_letter_queue grant_submit grant_client metric add_outputs"
        ),
        "NetworkSettings": "",
        "RequestLimits": "",
        "Schedule": "",
        "Settings": "",
        "SettingsError": "",
        "Size": "",
        "Sizes": "",
        "StageDeployment": "",
        "TinySize": "",
        "Trigger": "",
    }
