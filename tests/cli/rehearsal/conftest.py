"""Real clients of boto3 whose calls go nowhere: each is held against the service's model."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.model import ListShape, MapShape, OperationModel, Shape, StructureShape
from botocore.validate import validate_parameters

from longhaul.cli.checks.deploying import Plan
from longhaul.cli.place import Place
from longhaul.cli.rehearsal.template import Template
from longhaul.cli.target import Target
from longhaul.config.cdk_context import load
from simulation.aws.clock import VirtualClock
from tests.cdk.conftest import VARIED
from tests.cdk.synthesis import as_list, synthesize
from tests.synthesized import once

_session: Any = boto3.Session()  # the tests replace the class
ACCOUNT = "123456789012"
REGION = "eu-central-1"
IDENTITY = {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/me", "UserId": "AIDA"}


class AwsError(Exception):
    def __init__(self, code: str, message: str = "no", status: int = 400) -> None:
        super().__init__(code)
        self.code, self.message, self.status = code, message, status


Answers = dict[str, Callable[[Mapping[str, Any]], Any]]


@dataclass
class Stubs:
    """`answers`: what an operation, such as `events.TestEventPattern`, does. It may raise AwsError.

    Arguments and answers that do not fit botocore's model, or are no value of an enum, fail.
    """

    answers: Answers = field(default_factory=dict)
    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    region_name: str | None = REGION

    def client(self, service: str, **_: Any) -> Any:
        client: Any = _session.client(
            service, region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x"
        )
        given: dict[str, Any] = {}

        def remember(params: dict[str, Any], **_: Any) -> None:
            given.clear()
            given.update(params)

        def answer(model: OperationModel, **_: Any) -> Any:
            name = f"{service}.{model.name}"
            if model.input_shape:
                check_enums(given, model.input_shape)
            self.calls.append((name, dict(given)))
            return self._answer(name, dict(given), model)

        client.meta.events.register("before-parameter-build.*.*", remember)
        client.meta.events.register("before-call.*.*", answer)
        return client

    def _answer(self, name: str, given: dict[str, Any], model: OperationModel) -> Any:
        if name not in self.answers:
            raise AssertionError(f"nobody has said what {name} answers")
        try:
            parsed = self.answers[name](given)
        except AwsError as error:
            response = AWSResponse("", error.status, {}, None)
            return response, {
                "Error": {"Code": error.code, "Message": error.message},
                "ResponseMetadata": {"HTTPStatusCode": error.status},
            }
        if model.output_shape:
            validate_parameters(parsed, model.output_shape)
            check_enums(parsed, model.output_shape)
        return AWSResponse("", 200, {}, None), {**parsed, "ResponseMetadata": {}}

    def named(self, name: str) -> list[Mapping[str, Any]]:
        """The arguments of the calls of that name."""
        return [given for each, given in self.calls if each == name]


def check_enums(value: Any, shape: Shape) -> None:
    match shape:
        case StructureShape():
            for key, each in value.items():
                check_enums(each, shape.members[key])
        case ListShape():
            for each in value:
                check_enums(each, shape.member)
        case MapShape():
            for each in value.values():
                check_enums(each, shape.value)
        case _:
            allowed = getattr(shape, "enum", None)
            assert not allowed or value in allowed, f"{value} is not of {allowed}"


def synthesized(factory: pytest.TempPathFactory, name: str, settings: dict[str, Any]) -> Template:
    """As the caller's account would get it."""
    made = once(factory, name, lambda folder: synthesize(folder, settings))
    content = json.loads((Path(made) / "Longhaul.template.json").read_text())
    return Template(content, "Longhaul", ACCOUNT, REGION, "aws")


@pytest.fixture
def stubs(monkeypatch: pytest.MonkeyPatch, cloudformation: "CloudFormation") -> Stubs:
    """An account in which all is well."""
    stubs = Stubs(answers=all_well() | cloudformation.answers())
    monkeypatch.setattr(boto3, "Session", lambda **_: stubs)
    return stubs


@pytest.fixture
def target(stubs: Stubs) -> Target:
    del stubs
    return Target(Place(None, REGION, None, embedded=False), "Longhaul")


@pytest.fixture
def cloudformation() -> "CloudFormation":
    return CloudFormation()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def plan_of(target: Target, **settings: Any) -> Plan:
    return Plan(target, load(None, settings))


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The usual stack."""
    return synthesized(tmp_path_factory, "rehearsed-usual", {})


@pytest.fixture(scope="session")
def with_all(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """A stack with both engines, keys, a schedule and a rule for objects."""
    # As in tests/cdk/test_grants.py, which may have synthesized it.
    settings = {**VARIED, "emr_serverless": {"max_vcpu": 64}, "sizes": {}}
    return synthesized(tmp_path_factory, "with-keys", settings)


def all_well() -> Answers:
    """Answers of an account in which a deployment would work."""
    everybody = {
        "Principal": {"DataLakePrincipalIdentifier": "IAM_ALLOWED_PRINCIPALS"},
        "Permissions": ["ALL"],
    }
    return {
        "sts.GetCallerIdentity": lambda _: IDENTITY,
        "ssm.GetParameter": lambda _: {"Parameter": {"Value": "30"}},
        "iam.GetPolicy": lambda _: {"Policy": {"DefaultVersionId": "v1"}},
        "iam.GetRole": lambda given: {"Role": role(given["RoleName"])},
        "service-quotas.ListServiceQuotas": lambda given: {"Quotas": QUOTAS[given["ServiceCode"]]},
        "lambda.GetAccountSettings": lambda _: {
            "AccountLimit": {"UnreservedConcurrentExecutions": 1000}
        },
        "sqs.GetQueueUrl": lambda _: fail("AWS.SimpleQueueService.NonExistentQueue"),
        "glue.GetDatabase": lambda _: fail("EntityNotFoundException"),
        "lakeformation.GetDataLakeSettings": lambda _: {
            "DataLakeSettings": {
                "CreateDatabaseDefaultPermissions": [everybody],
                "CreateTableDefaultPermissions": [everybody],
            }
        },
        "lakeformation.ListPermissions": lambda _: {
            "PrincipalResourcePermissions": [
                {**everybody, "Permissions": ["CREATE_DATABASE"]},
            ]
        },
        "glue.GetDataCatalogEncryptionSettings": lambda _: {
            "DataCatalogEncryptionSettings": {
                "EncryptionAtRest": {"CatalogEncryptionMode": "DISABLED"}
            }
        },
        "ecs.ListAccountSettings": lambda _: {
            "settings": [{"name": "guardDutyActivate", "value": "off"}]
        },
        "ec2.DescribeVpcs": lambda _: {"Vpcs": [{"VpcId": "vpc-1"}]},
        "ec2.DescribeVpcEndpoints": lambda _: {"VpcEndpoints": []},
        "ec2.DescribeNetworkInterfaces": lambda _: {"NetworkInterfaces": []},
        "ec2.DescribeRouteTables": lambda _: {"RouteTables": []},
        "ec2.DescribeInternetGateways": lambda _: {
            "InternetGateways": [{"InternetGatewayId": "igw-1"}]
        },
        "emr.ListReleaseLabels": lambda given: {"ReleaseLabels": [given["Filters"]["Prefix"]]},
        "config.DescribeConfigurationRecorders": lambda _: {"ConfigurationRecorders": []},
        "config.DescribeConfigurationRecorderStatus": lambda _: {
            "ConfigurationRecordersStatus": []
        },
        "accessanalyzer.ValidatePolicy": lambda _: {"findings": []},
        "iam.SimulateCustomPolicy": judged,
        "stepfunctions.ValidateStateMachineDefinition": lambda _: {
            "result": "OK",
            "diagnostics": [],
        },
        "stepfunctions.TestState": test_of_state,
        "events.TestEventPattern": lambda given: {
            "Result": json.loads(given["Event"])["source"]
            in json.loads(given["EventPattern"])["source"]
        },
    }


QUOTAS = {
    "fargate": [
        {"QuotaName": f"Fargate {kind} vCPU resource count", "Value": 100.0}
        for kind in ("On-Demand", "Spot")
    ],
    "vpc": [
        {"QuotaName": name, "Value": value}
        for name, value in (
            ("VPCs per Region", 5.0),
            ("Internet gateways per Region", 5.0),
            ("Gateway VPC endpoints per Region", 5.0),
            ("Network interfaces per Region", 5_000.0),
        )
    ],
    "emr-serverless": [{"QuotaName": "Max concurrent vCPUs per account", "Value": 100.0}],
}


def fail(code: str) -> Any:
    raise AwsError(code)


def role(name: str) -> dict[str, Any]:
    return {
        "Path": "/",
        "RoleName": name,
        "RoleId": "AROAEXAMPLE123456",
        "Arn": f"arn:aws:iam::{ACCOUNT}:role/{name}",
        "CreateDate": datetime(2026, 1, 1, tzinfo=UTC),
    }


def judged(given: Mapping[str, Any]) -> dict[str, Any]:
    """The simulator where each statement does what it says: a denial goes before."""
    statements = [
        each for text in given["PolicyInputList"] for each in json.loads(text)["Statement"]
    ]
    resources = given.get("ResourceArns", ["*"])
    results = []
    for action in given["ActionNames"]:
        decisions = {each: _decision(statements, action, each) for each in resources}
        results.append(
            {
                "EvalActionName": action,
                "EvalResourceName": "form",
                "EvalDecision": next(iter(decisions.values())),
                "ResourceSpecificResults": [
                    {"EvalResourceName": each, "EvalResourceDecision": decision}
                    for each, decision in decisions.items()
                ],
            }
        )
    return {"EvaluationResults": results, "IsTruncated": False}


def _decision(statements: list[Any], action: str, resource: str) -> str:
    effects = {
        each["Effect"]
        for each in statements
        if action in as_list(each["Action"])
        and any(fnmatchcase(resource, one) for one in as_list(each["Resource"]))
    }
    if "Deny" in effects:
        return "explicitDeny"
    return "allowed" if effects else "implicitDeny"


def test_of_state(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the Amazon States Language says of one state with a mock."""
    state, data = json.loads(given["definition"]), json.loads(given["input"])
    mock = given.get("mock", {})
    if state["Type"] in ("Task", "Parallel") and not mock:
        fail("InvalidDefinition")
    if state["Type"] not in ("Task", "Parallel") and mock:
        fail("ValidationException")
    if state["Type"] == "Fail":
        return {"status": "FAILED", "error": state["Error"]}
    if state["Type"] == "Choice":
        for each in state["Choices"]:
            value = data
            for part in each["Variable"].split(".")[1:]:
                value = value[part]
            if value == each["StringEquals"]:
                return {"status": "SUCCEEDED", "nextState": each["Next"]}
        return {"status": "SUCCEEDED", "nextState": state["Default"]}
    if (error := mock.get("errorOutput", {}).get("error")) is not None:
        tried = given.get("stateConfiguration", {}).get("retrierRetryCount", 0)
        if tried < sum(each["MaxAttempts"] for each in state.get("Retry", ())):
            return {"status": "RETRIABLE", "error": error}
        for each in state.get("Catch", ()):
            if {error, "States.ALL"} & {*each["ErrorEquals"]}:
                return {"status": "CAUGHT_ERROR", "nextState": each["Next"], "error": error}
        return {"status": "FAILED", "error": error}
    following = {"nextState": state["Next"]} if "Next" in state else {}
    return {"status": "SUCCEEDED", **following}


@dataclass
class CloudFormation:
    """Stacks and change sets. `made`: how the next change set ends."""

    stacks: dict[str, str] = field(default_factory=dict)
    change_sets: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    objects: dict[tuple[str, str], bytes] = field(default_factory=dict)
    made: list[str] = field(default_factory=lambda: ["CREATE_IN_PROGRESS", "CREATE_COMPLETE"])
    reason: str = ""
    changes: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    hooks: list[dict[str, Any]] = field(default_factory=list)

    def answers(self) -> Answers:
        return {
            "cloudformation.DescribeStacks": self.describe_stacks,
            "cloudformation.CreateChangeSet": self.create,
            "cloudformation.DescribeChangeSet": self.describe,
            "cloudformation.DescribeChangeSetHooks": lambda _: {
                "Hooks": self.hooks,
                "Status": "PLANNED",
            },
            "cloudformation.DescribeEvents": lambda _: {"OperationEvents": self.events},
            "cloudformation.DeleteChangeSet": self.delete,
            "cloudformation.DeleteStack": self.delete_stack,
            "s3.PutObject": self.put,
            "s3.ListObjectVersions": self.list,
            "s3.DeleteObject": self.delete_object,
        }

    @property
    def is_clean(self) -> bool:
        """Whether nothing but deployed stacks is left."""
        return (
            not self.change_sets
            and not self.objects
            and all(status != "REVIEW_IN_PROGRESS" for status in self.stacks.values())
        )

    def describe_stacks(self, given: Mapping[str, Any]) -> dict[str, Any]:
        name = given["StackName"]
        if name not in self.stacks:
            raise AwsError("ValidationError", f"Stack with id {name} does not exist")
        return {
            "Stacks": [
                {
                    "StackName": name,
                    "StackStatus": self.stacks[name],
                    "CreationTime": datetime(2026, 1, 1, tzinfo=UTC),
                }
            ]
        }

    def create(self, given: Mapping[str, Any]) -> dict[str, Any]:
        stack, name = given["StackName"], given["ChangeSetName"]
        if len(given.get("TemplateBody", "").encode()) > 51_200:
            raise AwsError("ValidationError", "templateBody is too long")
        if "TemplateURL" in given:
            key = given["TemplateURL"].partition("amazonaws.com/")[2]
            assert key in {key for _, key in self.objects}, "the template is not there"
        if given["ChangeSetType"] == "CREATE":
            if stack in self.stacks:
                raise AwsError("ValidationError", f"Stack [{stack}] already exists")
            self.stacks[stack] = "REVIEW_IN_PROGRESS"
        elif stack not in self.stacks:
            raise AwsError("ValidationError", f"Stack [{stack}] does not exist")
        self.change_sets[stack, name] = list(self.made)
        return {"Id": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:changeSet/{name}/1"}

    def _named(self, arn: str) -> tuple[str, str]:
        name = arn.split("/")[1] if "/" in arn else arn
        found = [each for each in self.change_sets if each[1] == name]
        if not found:
            raise AwsError("ChangeSetNotFound", status=404)
        return found[0]

    def describe(self, given: Mapping[str, Any]) -> dict[str, Any]:
        statuses = self.change_sets[self._named(given["ChangeSetName"])]
        status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
        return {"Status": status, "StatusReason": self.reason, "Changes": self.changes}

    def delete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        named = self._named(given["ChangeSetName"])
        statuses = self.change_sets[named]
        if statuses[0].endswith("IN_PROGRESS"):
            statuses.append(statuses.pop(0))
            raise AwsError("InvalidChangeSetStatus")
        del self.change_sets[named]
        return {}

    def delete_stack(self, given: Mapping[str, Any]) -> dict[str, Any]:
        assert self.stacks[given["StackName"]] == "REVIEW_IN_PROGRESS", "a stack of somebody's"
        del self.stacks[given["StackName"]]
        return {}

    def put(self, given: Mapping[str, Any]) -> dict[str, Any]:
        self.objects[given["Bucket"], given["Key"]] = given["Body"]
        return {"VersionId": "v1"}

    def list(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "Versions": [
                {"Key": key, "VersionId": "v1"}
                for bucket, key in self.objects
                if bucket == given["Bucket"] and key.startswith(given["Prefix"])
            ]
        }

    def delete_object(self, given: Mapping[str, Any]) -> dict[str, Any]:
        assert given["VersionId"] == "v1", "a deletion without a version leaves one"
        del self.objects[given["Bucket"], given["Key"]]
        return {}
