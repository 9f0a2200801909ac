"""Real clients of boto3 whose calls go nowhere: each is held against the service's model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.model import ListShape, MapShape, OperationModel, Shape, StructureShape
from botocore.validate import validate_parameters

from longhaul.cli.checks.plan import Plan
from longhaul.cli.place import Place
from longhaul.cli.target import Target
from longhaul.config.settings import Settings
from simulation.aws.clock import VirtualClock
from tests.cdk.synthesis import synthesize
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


@pytest.fixture
def stubs(monkeypatch: pytest.MonkeyPatch, cloudformation: "CloudFormation") -> Stubs:
    """An account in which all is well."""
    identity: Answers = {"sts.GetCallerIdentity": lambda _: IDENTITY}
    stubs = Stubs(answers=identity | cloudformation.answers())
    monkeypatch.setattr(boto3, "Session", lambda **_: stubs)
    return stubs


@pytest.fixture
def plan(stubs: Stubs) -> Plan:
    del stubs
    return Plan(Target(Place(None, REGION, None, embedded=False), "Longhaul"), Settings())


@pytest.fixture
def cloudformation() -> "CloudFormation":
    return CloudFormation()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the usual stack."""
    made = once(tmp_path_factory, "rehearsed-usual", lambda folder: synthesize(folder, {}))
    return (Path(made) / "Longhaul.template.json").read_text()


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

    def answers(self) -> Answers:
        return {
            "cloudformation.DescribeStacks": self.describe_stacks,
            "cloudformation.CreateChangeSet": self.create,
            "cloudformation.DescribeChangeSet": self.describe,
            "cloudformation.DescribeEvents": lambda _: {"OperationEvents": self.events},
            "cloudformation.DeleteChangeSet": self.delete,
            "cloudformation.DeleteStack": self.delete_stack,
            "s3.PutObject": self.put,
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

    def delete_object(self, given: Mapping[str, Any]) -> dict[str, Any]:
        assert given["VersionId"] == "v1", "a deletion without a version leaves one"
        del self.objects[given["Bucket"], given["Key"]]
        return {}
