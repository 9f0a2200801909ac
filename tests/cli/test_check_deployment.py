"""What is checked of a deployment before anything is built, and what `bootstrap` makes."""

import subprocess
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import NoRegionError

from longhaul.cli.checks import docker
from longhaul.cli.checks.finding import Finding, Level, ok, problem
from longhaul.cli.checks.listed import of_deployment
from longhaul.cli.checks.plan import plan_for, plan_of
from longhaul.cli.commands.deploy import make_service_role, with_qualifier
from longhaul.cli.errors import CommandError
from longhaul.config.cdk_context import load
from longhaul.domain.lease import State
from simulation.aws.service import Call, Proceed, client_error
from tests.builders import stage
from tests.cli.conftest import Session, World


class FakeDocker:
    """A machine with a Docker that answers, or does not."""

    def __init__(self) -> None:
        self.answers: dict[str, str | Exception] = {
            "version": "28.2.2\n",
            "buildx": "Platforms: linux/amd64, linux/arm64\n",
        }

    def __call__(self, command: Sequence[str]) -> str:
        answer = self.answers[command[1]]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    """An x86 machine that can emulate ARM."""
    fake = FakeDocker()
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.delenv("CDK_DOCKER", raising=False)
    monkeypatch.setattr("longhaul.cli.checks.docker.run", fake)
    return fake


@pytest.fixture
def account(bare: World, machine: FakeDocker) -> World:
    """A bootstrapped account in which nothing is deployed."""
    del machine
    bare.aws.sqs.queues.clear()
    return bare


@pytest.fixture
def stack(bare: World, machine: FakeDocker) -> World:
    """A bootstrapped account with the queues of a stack; the test deploys it."""
    del machine
    return bare


def look(**settings: Any) -> dict[Level, list[Finding]]:
    """The findings by level, for the usual settings with these on top and a pinned base image."""
    found: dict[Level, list[Finding]] = {}
    usual = {"architecture": "x86_64", "python_image": f"python@sha256:{'0' * 64}"}
    for finding in of_deployment(plan_of(load(None, {**usual, **settings}), None)):
        assert finding.level in (Level.OK, Level.SKIPPED) or finding.do
        found.setdefault(finding.level, []).append(finding)
    return found


def only(found: dict[Level, list[Finding]], level: Level) -> Finding:
    (finding,) = found[level]
    return finding


@pytest.mark.usefixtures("account")
def test_a_prepared_account_and_machine_have_only_ok_findings() -> None:
    found = look()

    assert set(found) == {Level.OK}
    said = [finding.what for finding in found[Level.OK]]
    assert "image: linux/amd64 is built natively" in said
    assert "stack: Longhaul is not deployed here yet" in said


def test_an_account_without_bootstrap_is_told_to_run_make_bootstrap(account: World) -> None:
    account.aws.ssm.parameters.clear()

    finding = only(look(), Level.PROBLEM)

    assert "there is no parameter /cdk-bootstrap/hnb659fds/version" in finding.what
    assert "longhaul bootstrap" in finding.do


def test_the_bootstrap_is_that_of_the_qualifier_in_the_settings(account: World) -> None:
    assert "no parameter /cdk-bootstrap/acme/version" in (
        only(look(bootstrap_qualifier="acme"), Level.PROBLEM).what
    )

    account.aws.ssm.parameters["/cdk-bootstrap/acme/version"] = "27"

    assert Level.PROBLEM not in look(bootstrap_qualifier="acme")


def test_the_cdks_bootstrap_gets_the_qualifier_and_a_stack_of_its_own() -> None:
    assert with_qualifier(["--profile", "a"], "hnb659fds") == ["--profile", "a"]
    assert with_qualifier([], "acme") == [
        "--qualifier", "acme", "--toolkit-stack-name", "CDKToolkit-acme"
    ]  # fmt: skip
    assert with_qualifier(["--qualifier=other"], "acme") == ["--qualifier=other"]


@pytest.mark.parametrize(
    "policy", ["platform/workloads", "arn:aws:iam::123456789012:policy/platform/workloads"]
)
def test_the_boundary_of_all_roles_must_exist(account: World, policy: str) -> None:
    finding = only(look(permissions_boundary=policy), Level.PROBLEM)
    assert "no policy arn:aws:iam::123456789012:policy/platform/workloads" in finding.what

    account.aws.iam.policies.add("arn:aws:iam::123456789012:policy/platform/workloads")

    assert Level.PROBLEM not in look(permissions_boundary=policy)


def test_an_old_bootstrap_is_refused(account: World) -> None:
    account.aws.ssm.parameters["/cdk-bootstrap/hnb659fds/version"] = "5"

    assert "has version 5, and 6 is the least" in only(look(), Level.PROBLEM).what


def test_an_account_that_never_used_ecs_is_told_to_make_its_role(account: World) -> None:
    account.aws.iam.ecs_used = False

    assert "no role AWSServiceRoleForECS" in only(look(), Level.PROBLEM).what


@pytest.mark.usefixtures("account")
def test_credentials_of_another_account_are_refused() -> None:
    with pytest.raises(
        CommandError, match="those of account 123456789012, the settings say 999999999999"
    ):
        look(account="999999999999")


@pytest.mark.usefixtures("account")
def test_without_a_region_it_says_how_to_choose_one_on_aws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise NoRegionError

    monkeypatch.setattr("longhaul.cli.checks.plan.Target", fail)

    with pytest.raises(CommandError, match="no AWS region: set AWS_REGION") as it:
        look()
    assert "longhaul up" not in str(it.value)


@pytest.mark.parametrize(
    ("settings", "environment", "region"),
    [
        ({"region": "eu-west-1"}, "eu-central-1", "eu-west-1"),
        ({}, "eu-central-1", "eu-central-1"),
        ({}, "", None),
    ],
)
def test_the_region_is_that_of_the_settings_or_of_the_environment(
    account: World,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    environment: str,
    region: str | None,
) -> None:
    asked = []

    def session(**given: Any) -> Session:
        asked.append(given["region_name"])
        return Session(account.aws)

    monkeypatch.setattr(boto3, "Session", session)
    monkeypatch.setenv("AWS_REGION", environment)

    look(**settings)

    assert asked == [region]


@pytest.mark.parametrize(
    ("quota", "level", "said"),
    [
        (10.0, Level.OK, "10 Fargate On-Demand vCPUs for the 10 that all slots need"),
        (4.0, Level.WARNING, "4 Fargate On-Demand vCPUs, and all slots at once need 10"),
        (0.5, Level.PROBLEM, "0.5 Fargate On-Demand vCPUs, and one job needs 1"),
        (None, Level.SKIPPED, "the service does not say"),
    ],
)
def test_the_quota_is_compared_with_slots_times_size(
    account: World, quota: float | None, level: Level, said: str
) -> None:
    account.aws.quotas.quotas = {}
    if quota is not None:
        account.aws.quotas.quotas["Fargate On-Demand vCPU resource count"] = quota

    assert any(said in finding.what for finding in look()[level])


@pytest.mark.parametrize(
    ("limit", "level", "said"),
    [
        (1000, Level.OK, "1000 Lambda functions at once, for the 21 that are needed"),
        (15, Level.WARNING, "15 Lambda functions at once, and 10 jobs of the size tiny"),
        (10, Level.PROBLEM, "heartbeats will be throttled"),
    ],
)
def test_jobs_on_lambda_leave_room_for_the_stacks_own_functions(
    account: World, limit: int, level: Level, said: str
) -> None:
    account.aws.lambda_.concurrency = limit

    assert any(said in finding.what for finding in look(sizes={"tiny": {}})[level])


def test_a_new_account_has_too_few_functions_for_all_beats(account: World) -> None:
    account.aws.lambda_.concurrency = 10

    assert "10 Lambda functions at once, and 0 jobs" in only(look(), Level.WARNING).what


def test_the_region_has_room_for_the_stacks_own_network(account: World) -> None:
    ec2 = account.aws.ec2
    ec2.vpcs = [f"vpc-0123456789abcde0{n}" for n in range(5)]

    finding = only(look(), Level.PROBLEM)
    assert finding.what.startswith("network: VPCs per Region: 5 of 5 are taken, and the stack")
    named = {"vpc_id": "vpc-01234567", "subnet_ids": ["subnet-01234567"]}
    assert Level.PROBLEM not in look(network=named)

    ec2.vpcs = ec2.vpcs[:4]
    assert Level.PROBLEM not in look()

    ec2.gateways = [f"igw-0123456789abcde0{n}" for n in range(5)]
    assert "network: Internet gateways per Region" in only(look(), Level.PROBLEM).what


def test_the_region_has_room_for_an_interface_of_each_task(account: World) -> None:
    account.aws.ec2.interfaces = 4_991

    finding = only(look(), Level.WARNING)

    assert finding.what.startswith(
        "network: Network interfaces per Region: 4991 of 5000 are taken, and 10 slots need one each"
    )
    account.aws.ec2.interfaces = 4_990
    assert Level.WARNING not in look()


SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:shop-AbCd12"
PARAMETER = "arn:aws:ssm:us-east-1:123456789012:parameter/shop"
VPC = {"vpc_id": "vpc-01234567", "subnet_ids": ["subnet-01234567", "subnet-89abcdef"]}


NEEDED = ["ecr.api", "ecr.dkr", "s3", "logs", "dynamodb", "glue"]


def route_table(gateway: str = "", **association: Any) -> dict[str, Any]:
    routes = [{"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local"}]
    kind = "GatewayId" if gateway.startswith("igw-") else "NatGatewayId"
    if gateway:
        routes.append({"DestinationCidrBlock": "0.0.0.0/0", kind: gateway, "State": "active"})
    return {"VpcId": "vpc-01234567", "Associations": [association], "Routes": routes}


@pytest.mark.parametrize(
    ("tables", "endpoints", "has_address", "said"),
    [
        ([route_table(Main=True)], [], False, "subnet-01234567, subnet-89abcdef of vpc-01234567"),
        ([route_table(Main=True)], [*NEEDED, "ssm"], False, "no endpoint for secretsmanager:"),
        (
            [route_table(Main=True)],
            ["s3", "dynamodb", "ssm", "secretsmanager"],
            False,
            "no endpoint for ecr.api, ecr.dkr, glue, logs: jobs are refused",
        ),
        (
            [route_table("nat-1", Main=True), route_table(SubnetId="subnet-89abcdef")],
            ["ssm"],
            False,
            "network: subnet-89abcdef of vpc-01234567 have no way to the internet",
        ),
        ([route_table(Main=True)], [*NEEDED, "ssm", "secretsmanager"], False, None),
        ([route_table("nat-1", Main=True)], [], False, None),
        ([route_table("igw-1", Main=True)], [], True, None),
        ([route_table("igw-1", Main=True)], [], False, "subnet-01234567, subnet-89abcdef"),
        (
            [route_table("nat-1", Main=True), route_table(SubnetId="subnet-89abcdef")],
            NEEDED,
            False,
            "VPC has no endpoint for secretsmanager, ssm: jobs",
        ),
    ],
)
def test_subnets_of_a_teams_own_lead_to_what_tasks_need(
    account: World,
    tables: list[dict[str, Any]],
    endpoints: list[str],
    *,
    has_address: bool,
    said: str | None,
) -> None:
    account.aws.ec2.route_tables = tables
    account.aws.ec2.endpoints = [
        {"VpcId": "vpc-01234567", "ServiceName": f"com.amazonaws.us-east-1.{each}"}
        for each in endpoints
    ]
    stages = [{"name": "main", "advanced": {"secrets": {"A": SECRET, "B": PARAMETER}}}]

    found = look(network={**VPC, "assign_public_ip": has_address}, stages=stages)

    if said is None:
        assert Level.WARNING not in found
    else:
        assert said in only(found, Level.WARNING).what


def test_a_deployed_stack_has_its_network(stack: World) -> None:
    stack.deploy()
    stack.aws.ec2.vpcs = [f"vpc-0123456789abcde0{n}" for n in range(5)]

    assert Level.PROBLEM not in look()


def test_a_check_that_is_denied_is_skipped_and_the_others_run(account: World) -> None:
    def around(call: Call, proceed: Proceed) -> dict[str, Any]:
        if call.service in ("iam", "service-quotas"):
            raise client_error("AccessDenied", "you may not", call.operation, status=403)
        return proceed()

    account.aws.gate.around = around

    found = look()

    assert set(found) == {Level.OK, Level.SKIPPED}
    assert len(found[Level.SKIPPED]) == 4


@pytest.mark.parametrize(
    ("program", "answer", "level", "said", "way_out"),
    [
        ("version", FileNotFoundError(), Level.PROBLEM, "there is no docker", "CDK_DOCKER"),
        (
            "version",
            subprocess.CalledProcessError(1, "docker", stderr="Cannot connect to the daemon"),
            Level.PROBLEM,
            "does not answer: Cannot connect to the daemon",
            "start it",
        ),
        ("buildx", "Platforms: linux/arm64", Level.WARNING, "AOT training may fail", "x86_64"),
        ("buildx", "Platforms: linux/amd64", Level.PROBLEM, "exec format error", "binfmt"),
        ("buildx", FileNotFoundError(), Level.WARNING, "does not say what it can", "buildx"),
    ],
)
def test_docker_and_the_images_architecture_are_checked(
    machine: FakeDocker,
    program: str,
    answer: str | Exception,
    level: Level,
    said: str,
    way_out: str,
) -> None:
    machine.answers[program] = answer

    plan: Any = SimpleNamespace(settings=load(None, None))
    (finding,) = (each for each in docker.image(plan) if each.level is level)

    assert said in finding.what
    assert way_out in finding.do


def test_a_stage_that_is_taken_out_with_jobs_and_messages_in_it_is_refused(
    stack: World,
) -> None:
    stack.settings = stack.settings.model_copy(
        update={"stages": (stage(name="main", retired=True),)}
    )
    stack.deploy()
    stack.claim("a")
    stack.bury("b")

    finding = only(look(stages=[{"name": "other"}]), Level.PROBLEM)

    assert "stage main: is not in the settings any more" in finding.what
    assert "1 dead letters" in finding.what
    assert "1 unfinished jobs" in finding.what
    assert "Take a stage out" in finding.do
    assert stack.state("a") is State.RUNNING


def test_an_empty_stage_is_taken_out_only_after_it_was_retired(stack: World) -> None:
    stack.deploy()
    assert "was not retired" in only(look(stages=[{"name": "other"}]), Level.PROBLEM).what

    stack.settings = stack.settings.model_copy(
        update={"stages": (stage(name="main", retired=True),)}
    )
    stack.deploy()
    assert Level.PROBLEM not in look(stages=[{"name": "other"}])


def test_a_stage_whose_queues_would_be_replaced_is_refused(stack: World) -> None:
    stack.deploy()

    finding = only(
        look(stages=[{"name": "main", "advanced": {"queue_prefix": "ours"}}]), Level.PROBLEM
    )

    assert "would be replaced" in finding.what
    assert '"queue_prefix": "' in finding.do


@pytest.mark.usefixtures("stack")
def test_a_queue_of_another_stack_is_not_taken() -> None:
    finding = only(look(), Level.PROBLEM)

    assert "the queue Longhaul-main-jobs is there already" in finding.what
    assert "queue_prefix" in finding.do


def test_a_database_of_the_stacks_name_that_is_not_its_own_is_not_taken(account: World) -> None:
    account.aws.glue.create_database(DatabaseInput={"Name": "longhaul"})

    finding = only(look(), Level.PROBLEM)

    assert "the Glue database longhaul is there already" in finding.what
    assert "stack_name" in finding.do


def test_the_stack_keeps_the_database_that_it_has(stack: World) -> None:
    stack.aws.glue.create_database(DatabaseInput={"Name": "longhaul"})
    paths = stack.settings.paths.model_copy(update={"table_databases": ("longhaul",)})
    stack.settings = stack.settings.model_copy(update={"paths": paths})
    stack.deploy()

    assert Level.PROBLEM not in look()


def test_the_key_of_the_catalog_must_be_the_one_of_the_settings(account: World) -> None:
    aws, key = account.aws, "arn:aws:kms:us-east-1:123456789012:key/1234abcd"
    aws.kms.managers = {key: "CUSTOMER"}
    aws.glue.encryption = {"CatalogEncryptionMode": "SSE-KMS", "SseAwsKmsKeyId": "1234abcd"}

    finding = only(look(), Level.PROBLEM)
    assert f"encrypted with {key}, and the settings name no catalog_key" in finding.what
    assert f'set catalog_key to "{key}"' in finding.do
    other = f"catalog_key names {key}e:"
    assert other in only(look(catalog_key=f"{key}e"), Level.PROBLEM).what
    assert set(look(catalog_key=key)) == {Level.OK}

    aws.glue.encryption["CatalogEncryptionMode"] = "SSE-KMS-WITH-SERVICE-ROLE"
    assert set(look()) == {Level.OK}
    aws.glue.encryption["CatalogEncryptionMode"] = "SSE-KMS"
    aws.kms.managers = {key: "AWS"}
    assert set(look()) == {Level.OK}


DEPLOYER = "arn:aws:iam::123456789012:role/cdk-hnb659fds-cfn-exec-role-123456789012-us-east-1"


def test_a_lake_in_which_the_deployment_may_make_no_database_is_named(account: World) -> None:
    lake = account.aws.lakeformation
    lake.in_catalog = [lake.granted("arn:aws:iam::123456789012:role/Lake", "CREATE_DATABASE")]

    finding = only(look(), Level.PROBLEM)
    assert finding.what.startswith(f"lake: {DEPLOYER} may not make the database longhaul")
    assert "own_database" in finding.do

    assert Level.PROBLEM not in look(own_database=False)
    lake.in_catalog = []
    assert "do not see whether" in only(look(), Level.WARNING).what
    lake.in_catalog = [lake.granted(DEPLOYER, "CREATE_DATABASE")]
    assert set(look()) == {Level.OK}


def test_a_governed_lake_needs_grants_of_the_stacks_roles(account: World) -> None:
    lake = account.aws.lakeformation
    lake.defaults = []

    assert "lake: Lake Formation governs longhaul:" in only(look(), Level.WARNING).what
    finding = only(look(lake_formation=True), Level.PROBLEM)
    assert finding.what.startswith(f"lake: {DEPLOYER} is no administrator of the lake")

    lake.admins = [DEPLOYER]
    assert set(look(lake_formation=True)) == {Level.OK}


def test_a_database_of_a_governed_lake_needs_grants_too(account: World) -> None:
    lake = account.aws.lakeformation
    account.aws.glue.create_database(DatabaseInput={"Name": "theirs"})
    named: dict[str, Any] = {"own_database": False, "table_databases": ["theirs"]}
    lake.in_databases = {"theirs": [lake.granted("arn:aws:iam::123456789012:role/Lake", "ALL")]}

    assert "lake: Lake Formation governs theirs:" in only(look(**named), Level.WARNING).what

    lake.in_databases["theirs"].append(lake.granted("IAM_ALLOWED_PRINCIPALS", "ALL"))
    assert set(look(**named)) == {Level.OK}


@pytest.mark.usefixtures("account")
def test_without_a_database_nothing_is_asked_of_the_lake() -> None:
    said = [each.what for each in look(own_database=False)[Level.OK]]

    assert "tables: the Glue databases are none: jobs write no tables" in said
    assert not any(each.startswith("lake: ") for each in said)


def test_a_database_that_the_settings_name_must_exist(account: World) -> None:
    assert "no Glue database lake," in only(look(table_databases=["lake"]), Level.PROBLEM).what

    account.aws.glue.create_database(DatabaseInput={"Name": "lake"})

    assert Level.PROBLEM not in look(table_databases=["lake"])


def test_a_table_that_glue_is_to_optimize_must_exist(stack: World) -> None:
    stack.aws.glue.create_database(DatabaseInput={"Name": "longhaul"})
    paths = stack.settings.paths.model_copy(update={"table_databases": ("longhaul",)})
    stack.settings = stack.settings.model_copy(update={"paths": paths})
    stack.deploy()
    assert "has no table delays," in only(look(optimized_tables=["delays"]), Level.PROBLEM).what

    stack.aws.glue.create_table(DatabaseName="longhaul", TableInput={"Name": "delays"})

    assert Level.PROBLEM not in look(optimized_tables=["delays"])


@pytest.mark.usefixtures("account")
def test_of_the_cdks_arguments_those_that_choose_the_deployment_are_read() -> None:
    plan = plan_for(
        ["--require-approval", "never", "-c", 'longhaul={"stack_name": "Mine"}', "--profile", "me"]
    )

    assert (plan.settings.stack_name, plan.target.stack) == ("Mine", "Mine")
    assert plan.target.place.profile == "me"


def test_bootstrap_makes_the_service_linked_role_once(account: World) -> None:
    """Where it is there, nothing is asked for that a policy may deny."""
    account.aws.iam.ecs_used = False

    make_service_role(account.aws.iam)
    make_service_role(account.aws.iam)

    assert account.aws.gate.counts["iam.CreateServiceLinkedRole"] == 1


@pytest.mark.usefixtures("no_project")
def test_before_there_is_a_stack_its_deployment_is_checked(
    bare: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [ok("bootstrap: version 28"), problem("region: none is chosen", "choose one")]
    monkeypatch.setattr("longhaul.cli.checks.listed.of_deployment", lambda *_: iter(found))
    done = bare.run("check")
    assert done.exit_code == 1
    assert "XX  region: none is chosen" in done.stdout
    assert "--  stack: Longhaul is not deployed yet" in done.stdout


def test_a_stack_that_is_named_and_is_not_there_is_no_deployment_to_check(bare: World) -> None:
    assert bare.run("check", "--stack", "Longhual").exit_code == 3
