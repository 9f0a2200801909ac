"""The policies of a synthesized stack, as the judge of roles takes them."""

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

from longhaul.local.iam.judge import Access, Judge, Policies
from tests.cdk.synthesis import readable_id
from tests.local.support import ACCOUNT, REGION

HERE: Final = f"{REGION}:{ACCOUNT}"
_ARNS: Final = {
    "AWS::SQS::Queue": f"arn:aws:sqs:{HERE}:{{}}",
    "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{HERE}:table/{{}}",
    "AWS::EMRServerless::Application": f"arn:aws:emr-serverless:{HERE}:/applications/{{}}",
    "AWS::S3::Bucket": "arn:aws:s3:::{}",
    "AWS::Lambda::Function": f"arn:aws:lambda:{HERE}:function:{{}}",
    "AWS::IAM::Role": f"arn:aws:iam::{ACCOUNT}:role/{{}}",
    "AWS::StepFunctions::StateMachine": f"arn:aws:states:{HERE}:stateMachine:{{}}",
    "AWS::Logs::LogGroup": f"arn:aws:logs:{HERE}:log-group:{{}}:*",
    "AWS::Events::Rule": f"arn:aws:events:{HERE}:rule/{{}}",
    "AWS::SNS::Topic": f"arn:aws:sns:{HERE}:{{}}",
    "AWS::ECS::Cluster": f"arn:aws:ecs:{HERE}:cluster/{{}}",
}
_IS_AN_ARN: Final = {"AWS::SNS::Topic", "AWS::StepFunctions::StateMachine"}
# The policy that a key is made with: those of the account's roles decide.
_ACCOUNT_DECIDES: Final = {
    "Effect": "Allow",
    "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
    "Action": "kms:*",
    "Resource": "*",
}
_PSEUDO: Final = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Region": REGION,
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
}


@dataclass(frozen=True)
class Use:
    """What a role does, or a service by its own name where a resource lets it."""

    who: str
    actions: tuple[str, ...]
    resource: str
    page: str
    context: dict[str, str | list[str]] = field(default_factory=dict)


class Roles:
    """A template whose resources are named in AWS by their readable ids."""

    def __init__(self, template: dict[str, Any]) -> None:
        self._resources: dict[str, Any] = template["Resources"]
        # By the ARN of who has it: the policy of a role, and that of a resource.
        self._of_roles: dict[str, list[dict[str, Any]]] = {}
        self._of_resources: dict[str, list[dict[str, Any]]] = {}
        for logical_id, resource in self._resources.items():
            self._read(logical_id, resource["Type"], resource.get("Properties", {}))

    def arn(self, name: str) -> str:
        """Of the resource whose readable id that is."""
        (found,) = (each for each in self._resources if readable_id(each) == name)
        return self._arn(found)

    def named(self, use: Use) -> Use:
        """With the names of this stack in the place of `<Id>` and `<Id.Arn>`."""
        context = {
            key: self._filled(each) if isinstance(each, str) else each
            for key, each in use.context.items()
        }
        return replace(
            use, who=self._filled(use.who), resource=self._filled(use.resource), context=context
        )

    def refused(self, judge: Judge, use: Use) -> list[str]:
        """The actions of a named use that the policies do not allow."""
        who, identity = use.who, tuple[str, ...]()
        if who.startswith("arn:"):
            identity = (_policy(self._of_roles.get(who, [])),)
            who = f"arn:aws:sts::{ACCOUNT}:assumed-role/{who.rpartition('/')[2]}/service"
        owner = use.resource.partition("/")[0] if ":s3:" in use.resource else use.resource
        statements = self._of_resources.get(owner)
        if ":kms:" in owner:
            statements = [_ACCOUNT_DECIDES]
        policies = Policies(identity, resource=_policy(statements) if statements else None)
        context = {"aws:SecureTransport": "true", **use.context}
        return [
            action
            for action in use.actions
            if not judge.decide(
                who, ACCOUNT, Access(action, use.resource, context), policies
            ).allowed
        ]

    def _read(self, logical_id: str, kind: str, properties: dict[str, Any]) -> None:
        match kind:
            case "AWS::IAM::Policy":
                for role in properties["Roles"]:
                    document = self._of_roles.setdefault(self._arn(role["Ref"]), [])
                    document += self._resolved(properties["PolicyDocument"]["Statement"])
            case "AWS::IAM::Role":
                trust = properties["AssumeRolePolicyDocument"]["Statement"]
                self._of_resource(self._arn(logical_id), trust)
            case "AWS::SQS::QueuePolicy" | "AWS::SNS::TopicPolicy" | "AWS::S3::BucketPolicy":
                named = properties.get("Queues") or properties.get("Topics")
                for owner in named or [properties["Bucket"]]:
                    statements = properties["PolicyDocument"]["Statement"]
                    self._of_resource(self._arn(owner["Ref"]), statements)
            case "AWS::Lambda::Permission":
                function = self._resolved(properties["FunctionName"])
                source = {"ArnLike": {"aws:SourceArn": properties["SourceArn"]}}
                statement = {
                    "Effect": "Allow",
                    "Principal": {"Service": properties["Principal"]},
                    "Action": properties["Action"],
                    "Resource": function,
                    "Condition": source,
                }
                self._of_resource(function, [statement])

    def _filled(self, text: str) -> str:
        def value(found: re.Match[str]) -> str:
            name, _, attribute = found[1].partition(".")
            return self.arn(name) if attribute else name

        return re.sub(r"<([\w.]+)>", value, text)

    def _of_resource(self, arn: str, statements: list[dict[str, Any]]) -> None:
        self._of_resources.setdefault(arn, []).extend(self._resolved(statements))

    def _resolved(self, value: Any) -> Any:
        match value:
            case {"Ref": name}:
                kind = self._resources[name]["Type"] if name in self._resources else ""
                is_arn = kind in _IS_AN_ARN
                return _PSEUDO.get(name) or (self._arn(name) if is_arn else _name(name))
            case {"Fn::GetAtt": [name, "Arn"]}:
                return self._arn(name)
            case {"Fn::GetAtt": [name, _]}:
                return _name(name)
            case {"Fn::Join": [separator, parts]}:
                return separator.join(self._resolved(part) for part in parts)
            case {"Fn::Sub": str(text)}:
                return re.sub(r"\$\{([\w:]+)\}", lambda found: _PSEUDO[found[1]], text)
            case dict():
                return {key: self._resolved(each) for key, each in value.items()}
            case list():
                return [self._resolved(each) for each in value]
        return value

    def _arn(self, logical_id: str) -> str:
        return _ARNS[self._resources[logical_id]["Type"]].format(_name(logical_id))


def _name(logical_id: str) -> str:
    return readable_id(logical_id)


def _policy(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})
