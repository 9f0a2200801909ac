"""The deployed stack: state machine, functions, queues, table, mapping, rules and tasks.

It is read from the snapshot of the template, which `tests/cdk` compares with a fresh synthesis.
So a world needs no Node, and replays from a clean checkout.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from longhaul.cdk.definition import rights_states
from longhaul.core.settings import VARIABLE, RuntimeSettings, StageSettings
from simulation.aws.service import ACCOUNT, REGION

_ROOT = Path(__file__).resolve().parents[2]
_SNAPSHOTS = _ROOT / "tests" / "cdk" / "snapshots"
_PSEUDO = {
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "AWS::URLSuffix": "amazonaws.com",
}
_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_RATE = re.compile(r"rate\((\d+) minutes?\)")
_APPLICATION = "AWS::EMRServerless::Application"
APPLICATION_ID = "00f0000000000001"
"""The first that the fake gives."""

FUNCTIONS = ("dispatcher", "heartbeat", "settle", "sweeper")


@dataclass(frozen=True)
class Function:
    name: str
    arn: str
    timeout_s: int
    memory_mib: int


@dataclass(frozen=True)
class Rule:
    """An EventBridge rule whose target is a function; `every_s` is None for an event pattern."""

    every_s: int | None
    statuses: tuple[str, ...]
    function: str
    max_age_s: int


@dataclass(frozen=True)
class Deployed:
    settings: RuntimeSettings
    definition: str
    functions: Mapping[str, Function]  # by name
    batch_size: int
    concurrency: int
    queues: Mapping[str, Mapping[str, str]]  # attributes by name, dead-letter queues first
    table: Mapping[str, Any]
    rules: tuple[Rule, ...]
    families: Mapping[str, int]  # stop timeout by task family
    application: Mapping[str, Any] | None = None  # that of EMR Serverless, as its API takes it

    def definition_for(self, stages: Iterable[str]) -> str:
        """The definition of a stack with these stages, each with roles of its own."""
        definition = json.loads(self.definition)
        states = definition["States"]["RunUnderLease"]["Branches"][0]["States"]
        main = states.pop("MainRights")
        rights = {
            stage: {
                # The fake of Lambda has one function for all.
                name: arn if name == "function" else role_of(stage, arn)
                for name, arn in main["Result"].items()
            }
            for stage in stages
        }
        states |= rights_states(rights, main["Next"])
        return json.dumps(definition)


def role_of(stage: str, main: str) -> str:
    """The ARN of a stage's role, where that of the stage `main` is known."""
    return main if stage == StageSettings().name else f"{main}-{stage}"


def stage_of(role: str) -> str:
    """The stage whose role that is, as `role_of` names it."""
    return role.partition(":role/")[2].partition("-")[2] or StageSettings().name


@cache
def deployed(*, tiny: bool = False, emr: bool = False) -> Deployed:
    """The stack with the usual settings.

    If asked for with the size `tiny`, or with that and EMR Serverless.
    """
    resources = _resources("Longhaul")
    if emr:
        resources |= _resources("engines")
    elif tiny:
        resources |= _resources("tiny")
    return _Template(resources).read()


def _resources(snapshot: str) -> dict[str, Any]:
    text = (_SNAPSHOTS / f"{snapshot}.template.json").read_text()
    resources: dict[str, Any] = json.loads(text)["Resources"]
    return resources


def _name_of_function(properties: Mapping[str, Any]) -> str:
    """What its handler is in: a module of `functions`, or the folder of an engine.

    An image has its handler as the command.
    """
    handler: str = properties.get("Handler") or properties["ImageConfig"]["Command"][0]
    return handler.removeprefix("longhaul.").split(".")[1]


def _application(properties: Mapping[str, Any]) -> dict[str, Any]:
    """CreateApplication's arguments, of those that the fake knows."""
    plain = ("Name", "ReleaseLabel", "Type")
    nested = [name for name in properties if name.endswith(("Configuration", "Capacity"))]
    for unused in ("MonitoringConfiguration", "RuntimeConfiguration"):
        nested.remove(unused)
    return {
        **{_lower(name): properties[name] for name in plain},
        **{
            _lower(name): {_lower(inner): each for inner, each in properties[name].items()}
            for name in nested
        },
    }


def _lower(name: str) -> str:
    return name[0].lower() + name[1:]


class _Template:
    def __init__(self, resources: Mapping[str, Any]) -> None:
        self._resources = resources

    def read(self) -> Deployed:
        functions = {each.name: each for each in self._functions()}
        mapping = self._only("AWS::Lambda::EventSourceMapping")
        if mapping["FunctionResponseTypes"] != ["ReportBatchItemFailures"] or mapping.get(
            "FilterCriteria"
        ):
            raise NotImplementedError(
                "the simulated mapping reports batch item failures, and filters nothing"
            )
        return Deployed(
            settings=RuntimeSettings.model_validate_json(self._settings()),
            definition=self._text(
                self._only("AWS::StepFunctions::StateMachine")["DefinitionString"]
            ),
            functions=functions,
            batch_size=mapping["BatchSize"],
            concurrency=mapping["ScalingConfig"]["MaximumConcurrency"],
            queues=dict(self._queues()),
            table={**self._only("AWS::DynamoDB::Table"), "TableName": "leases"},
            rules=tuple(self._rules()),
            families={
                each["Family"]: each["ContainerDefinitions"][0]["StopTimeout"]
                for each in self._all("AWS::ECS::TaskDefinition")
            },
            application=next(map(_application, self._all(_APPLICATION)), None),
        )

    def _functions(self) -> list[Function]:
        return [
            Function(
                _name_of_function(resource["Properties"]),
                self._named(logical_id)[1],
                resource["Properties"]["Timeout"],
                resource["Properties"]["MemorySize"],
            )
            for logical_id, resource in self._resources.items()
            if resource["Type"] == "AWS::Lambda::Function"
        ]

    def _settings(self) -> str:
        """The settings of all functions, with the names of the jobs, which the snapshot lacks."""
        (variables,) = [
            each["Environment"]["Variables"]
            for each in self._all("AWS::Lambda::Function")
            if _name_of_function(each) == "dispatcher"
        ]
        folders = (_ROOT / "longhaul" / "catalogue", _ROOT / "examples" / "demo" / "jobs")
        jobs = sorted({file.stem for folder in folders for file in folder.glob("[!_]*.py")})
        return self._text(variables[VARIABLE]).replace("[<jobs>]", json.dumps(jobs))

    def _queues(self) -> list[tuple[str, dict[str, str]]]:
        found = []
        for each in self._all("AWS::SQS::Queue"):
            if "QueueName" not in each:
                continue  # of undelivered events: no world reads it
            numbers = ("VisibilityTimeout", "MessageRetentionPeriod", "MaximumMessageSize")
            attributes = {name: str(each[name]) for name in numbers if name in each}
            if policy := each.get("RedrivePolicy"):
                attributes["RedrivePolicy"] = json.dumps(
                    {**policy, "deadLetterTargetArn": self._text(policy["deadLetterTargetArn"])}
                )
            found.append((each["QueueName"], attributes))
        return sorted(found, key=lambda pair: "RedrivePolicy" in pair[1])

    def _rules(self) -> list[Rule]:
        found = []
        for each in self._all("AWS::Events::Rule"):
            (target,) = each["Targets"]
            (function,) = [
                name for name in FUNCTIONS if self._text(target["Arn"]).endswith(f":{name}")
            ]
            rate = _RATE.fullmatch(each.get("ScheduleExpression", ""))
            found.append(
                Rule(
                    every_s=60 * int(rate[1]) if rate else None,
                    statuses=tuple(
                        each.get("EventPattern", {}).get("detail", {}).get("status", ())
                    ),
                    function=function,
                    max_age_s=target["RetryPolicy"]["MaximumEventAgeInSeconds"],
                )
            )
        return found

    def _all(self, kind: str) -> list[Mapping[str, Any]]:
        return [each["Properties"] for each in self._resources.values() if each["Type"] == kind]

    def _only(self, kind: str) -> Mapping[str, Any]:
        (found,) = self._all(kind)
        return found

    def _text(self, value: Any) -> str:
        """A value with its intrinsics resolved."""
        match value:
            case str():
                return value
            case {"Fn::Join": [str(separator), [*parts]]}:
                return separator.join(self._text(part) for part in parts)
            case {"Ref": str(name)}:
                return _PSEUDO.get(name) or self._named(name)[0]
            case {"Fn::Sub": str(text)}:
                return _VARIABLE.sub(lambda found: _PSEUDO[found[1]], text)
            case {"Fn::GetAtt": [str(), "ApplicationId"]}:
                return APPLICATION_ID
            case {"Fn::GetAtt": [str(name), str()]}:
                return self._named(name)[1]
        raise NotImplementedError(f"an intrinsic that the simulation does not resolve: {value}")

    def _named(self, name: str) -> tuple[str, str]:
        """What stands for a resource: its reference, and its ARN."""
        resource = self._resources[name]
        match resource["Type"]:
            case "AWS::SQS::Queue":
                queue = resource["Properties"].get("QueueName", name)
                url = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{queue}"
                return url, f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}"
            case "AWS::Lambda::Function":
                function = _name_of_function(resource["Properties"])
                return name, f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{function}"
        references = {"AWS::DynamoDB::Table": "leases", "AWS::S3::Bucket": "longhaul-data"}
        arns = {
            "AWS::ECS::Cluster": f"arn:aws:ecs:{REGION}:{ACCOUNT}:cluster/Longhaul",
            "AWS::IAM::Role": f"arn:aws:iam::{ACCOUNT}:role/{name}",
            _APPLICATION: f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:/applications/"
            f"{APPLICATION_ID}",
        }
        return references.get(resource["Type"], name), arns.get(resource["Type"], name)
