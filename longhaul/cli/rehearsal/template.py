"""The synthesized template as AWS would see it: intrinsics as the values they may get.

Physical names do not exist yet. A resource without a name of its own gets one from its logical id,
of the form that AWS gives: what is judged by it is the form.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

# By type: the property with its name, and its ARN below `arn:<partition>:`.
_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "AWS::DynamoDB::Table": ("TableName", "dynamodb:{region}:{account}:table/{name}"),
    "AWS::ECS::Cluster": ("ClusterName", "ecs:{region}:{account}:cluster/{name}"),
    "AWS::ECS::TaskDefinition": ("Family", "ecs:{region}:{account}:task-definition/{name}:1"),
    "AWS::EMRServerless::Application": (
        "",
        "emr-serverless:{region}:{account}:/applications/{name}",
    ),
    "AWS::Events::Rule": ("Name", "events:{region}:{account}:rule/{name}"),
    "AWS::IAM::Role": ("RoleName", "iam::{account}:role/{name}"),
    "AWS::Lambda::Function": ("FunctionName", "lambda:{region}:{account}:function:{name}"),
    "AWS::Logs::LogGroup": ("LogGroupName", "logs:{region}:{account}:log-group:{name}:*"),
    "AWS::S3::Bucket": ("BucketName", "s3:::{name}"),
    "AWS::SNS::Topic": ("TopicName", "sns:{region}:{account}:{name}"),
    "AWS::SQS::Queue": ("QueueName", "sqs:{region}:{account}:{name}"),
    "AWS::StepFunctions::StateMachine": (
        "StateMachineName",
        "states:{region}:{account}:stateMachine:{name}",
    ),
}
# Types of which `Ref` is the ARN.
_REF_IS_ARN: Final = ("AWS::SNS::Topic", "AWS::StepFunctions::StateMachine")
# A name that AWS makes is made of these; a bucket's is in lower case.
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]")
_IN_SUB: Final = re.compile(r"\$\{([^!}]+)}")


@dataclass(frozen=True)
class Role:
    """`policies`: its own, by name. `boundary`: the ARN of its permissions boundary."""

    name: str
    trust: Mapping[str, Any]
    policies: Mapping[str, Mapping[str, Any]]
    boundary: str | None


@dataclass(frozen=True)
class ResourcePolicy:
    name: str
    kind: str
    document: Mapping[str, Any]


@dataclass(frozen=True)
class Template:
    content: Mapping[str, Any]
    stack: str
    account: str
    region: str
    partition: str

    def roles(self) -> Iterator[Role]:
        policies: dict[str, dict[str, Mapping[str, Any]]] = {}
        for name, policy in self._of_type("AWS::IAM::Policy"):
            for role in policy["Roles"]:
                document = self.value(policy["PolicyDocument"])
                policies.setdefault(role["Ref"], {})[name] = document
        for name, role in self._of_type("AWS::IAM::Role"):
            inline = {
                each["PolicyName"]: self.value(each["PolicyDocument"])
                for each in role.get("Policies", ())
            }
            boundary = role.get("PermissionsBoundary")
            yield Role(
                name,
                self.value(role["AssumeRolePolicyDocument"]),
                inline | policies.get(name, {}),
                str(self.value(boundary)) if boundary else None,
            )

    def resource_policies(self) -> Iterator[ResourcePolicy]:
        for kind in ("AWS::S3::BucketPolicy", "AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy"):
            for name, policy in self._of_type(kind):
                yield ResourcePolicy(name, kind, self.value(policy["PolicyDocument"]))

    def machines(self) -> Iterator[tuple[str, str]]:
        """The definitions of state machines, as JSON, by name."""
        for name, machine in self._of_type("AWS::StepFunctions::StateMachine"):
            yield name, str(self.value(machine["DefinitionString"]))

    def patterns(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The event patterns of rules, by name."""
        for name, rule in self._of_type("AWS::Events::Rule"):
            if "EventPattern" in rule:
                yield name, self.value(rule["EventPattern"])

    def _of_type(self, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for name, resource in self.content["Resources"].items():
            if resource["Type"] == kind:
                yield name, resource.get("Properties", {})

    def value(self, node: Any) -> Any:  # noqa: ANN401 - any part of a template
        """The part without intrinsics.

        Raises:
            NotImplementedError: an intrinsic, or an attribute, that the stack did not use so far.
        """
        match node:
            case {"Ref": str(name), **rest} if not rest:
                return self._ref(name)
            case {"Fn::GetAtt": [str(name), str(attribute)]}:
                return self._attribute(name, attribute)
            case {"Fn::Join": [str(separator), [*parts]]}:
                return separator.join(str(self.value(part)) for part in parts)
            case {"Fn::Sub": str(text)}:
                return _IN_SUB.sub(lambda match: str(self._ref(match[1])), text)
            case {"Fn::If": [_, then, _]}:
                return self.value(then)
            case {"Fn::ImportValue": _}:
                # Of the CDK's bootstrap: the customer's key of its bucket.
                return self._arn("kms:{region}:{account}:key/00000000-0000-4000-8000-000000000000")
            case dict() if any(key.startswith("Fn::") for key in node):
                raise NotImplementedError(f"{next(iter(node))} in a template")
            case dict():
                inner = {key: self.value(each) for key, each in node.items()}
                return {key: each for key, each in inner.items() if each is not None}
            case list():
                return [value for each in node if (value := self.value(each)) is not None]
        return node

    def _ref(self, name: str) -> str | None:
        pseudo = {
            "AWS::AccountId": self.account,
            "AWS::Region": self.region,
            "AWS::Partition": self.partition,
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::StackName": self.stack,
            "AWS::NoValue": None,
        }
        if name in pseudo:
            return pseudo[name]
        kind = self.content["Resources"][name]["Type"]
        return self._arn_of(name) if kind in _REF_IS_ARN else self._name(name)

    def _attribute(self, name: str, attribute: str) -> str:
        match attribute:
            case "Arn":
                return self._arn_of(name)
            case "Name" | "QueueName" | "TopicName":
                return self._name(name)
            case "GroupId":
                return "sg-0123456789abcdef0"
            case "ApplicationId":
                return self._name(name)
        raise NotImplementedError(f"Fn::GetAtt {attribute} in a template")

    def _name(self, name: str) -> str:
        resource = self.content["Resources"][name]
        named, _ = _KINDS.get(resource["Type"], ("", ""))
        given = resource.get("Properties", {}).get(named)
        if given is not None:
            return str(self.value(given))
        if resource["Type"] == "AWS::EMRServerless::Application":
            return _NOT_IN_NAMES.sub("", name.lower())
        made = f"{self.stack}-{name}"
        return made.lower() if resource["Type"] == "AWS::S3::Bucket" else made

    def _arn_of(self, name: str) -> str:
        kind = self.content["Resources"][name]["Type"]
        if kind not in _KINDS:
            raise NotImplementedError(f"the ARN of a {kind} in a template")
        return self._arn(_KINDS[kind][1], self._name(name))

    def _arn(self, form: str, name: str = "") -> str:
        text = form.format(region=self.region, account=self.account, name=name)
        return f"arn:{self.partition}:{text}"
