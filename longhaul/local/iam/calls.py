"""Which actions a call of an API is, on which resources, with which context.

An operation is an action of the same name, and its resources are those that AWS's service
authorization reference lists for the action, with the call's parameters in their ARNs. The tables
here say what that reference does not: operations whose action has another name, and parameters
whose name is not that of the ARN's variable.
"""
# ruff: noqa: ANN401 - parameters of any API

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from longhaul.local.iam.dynamodb_keys import dynamodb_context
from longhaul.local.iam.judge import Access, Context

# Of https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html,
# https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html and
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-using-identity-based-policies.html
OTHER_NAMES: Final = {
    ("s3", "HeadObject"): "GetObject",
    ("s3", "HeadBucket"): "ListBucket",
    ("s3", "ListObjects"): "ListBucket",
    ("s3", "ListObjectsV2"): "ListBucket",
    ("s3", "ListObjectVersions"): "ListBucketVersions",
    ("s3", "ListMultipartUploads"): "ListBucketMultipartUploads",
    ("s3", "ListParts"): "ListMultipartUploadParts",
    ("s3", "ListBuckets"): "ListAllMyBuckets",
    ("s3", "CreateMultipartUpload"): "PutObject",
    ("s3", "UploadPart"): "PutObject",
    ("s3", "CompleteMultipartUpload"): "PutObject",
    ("s3", "CopyObject"): "PutObject",
    ("s3", "UploadPartCopy"): "PutObject",
    ("s3", "DeleteObjects"): "DeleteObject",
    ("lambda", "Invoke"): "InvokeFunction",
    ("sqs", "SendMessageBatch"): "SendMessage",
    ("sqs", "DeleteMessageBatch"): "DeleteMessage",
    ("sqs", "ChangeMessageVisibilityBatch"): "ChangeMessageVisibility",
}
# Names of a variable in an ARN → the parameters that may have its value, the first that is there.
_PARAMETERS: Final = {
    "bucketname": ("Bucket",),
    "objectname": ("Key",),
    "queuename": ("QueueUrl",),
    "rulename": ("Name", "Rule"),
    "databasename": ("DatabaseName", "Name"),
    "tablename": ("TableName", "Name"),
    "clustername": ("cluster",),
    "taskid": ("tasks", "task"),
    "schedulename": ("Name",),
    "parameternamewithoutleadingslash": ("Name", "Names"),
}
# Variables whose parameter may be a URL or an ARN that ends with the value.
_LAST_OF_A_PATH: Final = {"queuename", "clustername", "taskid"}
# The prefix of a service's actions, where requests are signed for another name.
_PREFIXES: Final = {"monitoring": "cloudwatch"}
# The context key with the role that a call hands to a service, and the service. ECS has the roles
# in its task definition: https://docs.aws.amazon.com/step-functions/latest/dg/connect-ecs.html
_PASSED: Final = {
    ("emr-serverless", "StartJobRun"): "emr-serverless.amazonaws.com",
    ("ecs", "RunTask"): "ecs-tasks.amazonaws.com",
}
# No policy has to allow them: https://docs.aws.amazon.com/STS/latest/APIReference/
FREE: Final = {("sts", "GetCallerIdentity")}
_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
_UNKNOWN: Final = "-"


class UnknownCallError(LookupError):
    """A call that is no action of the service authorization reference."""


@dataclass(frozen=True)
class Call:
    """A request, as its service's model names it. `headers` have lower-case names."""

    service: str
    operation: str
    parameters: Mapping[str, Any]
    headers: Mapping[str, str]
    region: str
    account: str


@dataclass(frozen=True)
class Known:
    """What the services' state tells about a call beyond its parameters.

    Args:
        hash_key: the attribute that is the partition key of a table, or of its index.
        task_definition: the ARN of a task definition, and those of its roles.
    """

    hash_key: Callable[[str, str | None], str | None]
    task_definition: Callable[[str], tuple[str, tuple[str, ...]]]


class Reference:
    """The service authorization reference, as the judge's packages carry it."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._file = cache(self._read)

    def accesses(self, call: Call, known: Known) -> list[Access]:
        """What a policy must allow, so that the call may be made.

        Raises:
            UnknownCallError: it is no action of the reference, so nothing can be said of it.
        """
        if (call.service, call.operation) in FREE:
            return []
        found = list(self._accesses(call, known))
        if not found:
            raise UnknownCallError(f"{call.service}:{call.operation}")
        return found

    def _accesses(self, call: Call, known: Known) -> Iterator[Access]:
        match call.service, call.operation:
            case "dynamodb", "TransactWriteItems" | "TransactGetItems":
                yield from self._of_transaction(call, known)
            case "dynamodb", "BatchGetItem" | "BatchWriteItem":
                for table, asked in call.parameters["RequestItems"].items():
                    yield from self._of_item(call, call.operation, table, asked, known)
            case "dynamodb", operation if table := call.parameters.get("TableName"):
                yield from self._of_item(call, operation, table, call.parameters, known)
            case "s3", _:
                yield from self._of_s3(call)
            case "ecs", "RunTask":
                yield from self._run_task(call, known)
            case "ecs", _:
                cluster = _cluster(call, call.parameters.get("cluster", "default"))
                yield from self._plain(call, _action(call), call.parameters, cluster)
            case "events", "PutEvents":
                for entry in call.parameters["Entries"]:
                    bus = (entry.get("EventBusName") or "default").rpartition("/")[2]
                    yield from self._plain(call, "PutEvents", {"EventBusName": bus}, {})
            case "glue" | "scheduler", _:
                # A table has its name in its description, and a schedule without a group the
                # default one.
                table = call.parameters.get("TableInput", {})
                named = {"GroupName": "default", **table, **call.parameters}
                yield from self._plain(call, _action(call), named, {})
            case "emr-serverless", "StartJobRun":
                yield from self._plain(call, _action(call), call.parameters, {})
                yield _passed(call, call.parameters["executionRoleArn"])
            case _:
                yield from self._plain(call, _action(call), call.parameters, {})

    def _of_s3(self, call: Call) -> Iterator[Access]:
        if call.operation == "DeleteObjects":
            for key in call.parameters["Keys"]:
                of_key = {"Bucket": call.parameters["Bucket"], "Key": key}
                yield from self._plain(call, _action(call), of_key, _s3_context(call))
            return
        if call.operation in {"CopyObject", "UploadPartCopy"}:
            bucket, key = _source(call.headers["x-amz-copy-source"])
            yield from self._plain(call, "GetObject", {"Bucket": bucket, "Key": key}, {})
        yield from self._plain(call, _action(call), call.parameters, _s3_context(call))

    def _of_item(
        self, call: Call, operation: str, table: str, asked: Mapping[str, Any], known: Known
    ) -> Iterator[Access]:
        index = asked.get("IndexName")
        name = table.rpartition("/")[2]
        context = dynamodb_context(operation, asked, known.hash_key(name, index))
        of_table = {"TableName": name} | ({"IndexName": index} if index else {})
        yield from self._plain(call, operation, of_table, context)

    def _of_transaction(self, call: Call, known: Known) -> Iterator[Access]:
        for item in call.parameters["TransactItems"]:
            for kind, asked in item.items():
                action = "ConditionCheckItem" if kind == "ConditionCheck" else f"{kind}Item"
                yield from self._of_item(call, action, asked["TableName"], asked, known)

    def _run_task(self, call: Call, known: Known) -> Iterator[Access]:
        definition, roles = known.task_definition(call.parameters["taskDefinition"])
        cluster = _cluster(call, call.parameters.get("cluster", "default"))
        yield Access("ecs:RunTask", definition, cluster)
        if call.parameters.get("tags"):
            # https://docs.aws.amazon.com/AmazonECS/latest/developerguide/supported-iam-actions-tagging.html
            tasks = f"{cluster['ecs:cluster']}".replace(":cluster/", ":task/")
            yield Access("ecs:TagResource", f"{tasks}/{_UNKNOWN}", {"ecs:CreateAction": "RunTask"})
        overrides = call.parameters.get("overrides") or {}
        named = [
            overrides[each] for each in ("taskRoleArn", "executionRoleArn") if each in overrides
        ]
        for role in sorted({*roles, *named}):
            yield _passed(call, role)

    def _plain(
        self, call: Call, action: str, parameters: Mapping[str, Any], context: Context
    ) -> Iterator[Access]:
        prefix = _PREFIXES.get(call.service, call.service)
        entry = self._file("actions", prefix).get(action.lower())
        if entry is None:
            return
        name = f"{prefix}:{entry['name']}"
        types = self._file("resourceTypes", prefix)
        patterns = [
            (types[each["name"].lower()]["arn"], each["required"])
            for each in entry["resourceTypes"]
        ]
        for resource in resources(patterns, parameters, call):
            yield Access(name, resource, context)

    def _read(self, kind: str, prefix: str) -> dict[str, Any]:
        file = self._data / kind / f"{prefix}.json"
        return json.loads(file.read_text("utf-8")) if file.exists() else {}


def _source(header: str) -> tuple[str, str]:
    """The bucket and the key of what is copied."""
    bucket, _, key = unquote(header).lstrip("/").partition("?")[0].partition("/")
    return bucket, key


def resources(
    patterns: list[tuple[str, bool]], parameters: Mapping[str, Any], call: Call
) -> list[str]:
    """The ARNs that an action is judged on.

    Args:
        patterns: of an action's types of resource, and whether the action needs one of that type.
        parameters: those of the call; an ARN that fits a pattern is taken as it is.
        call: has the account and the region.
    """
    if not patterns:
        return ["*"]
    filled: list[str] = []
    for one in _spread(parameters):
        named = [
            each
            for each in _texts(one)
            if each.startswith("arn:") and any(_fits(each, pattern) for pattern, _ in patterns)
        ]
        complete = named or [
            arn
            for pattern, _ in patterns
            if (arn := _filled(pattern, one, call, unknown=None)) is not None
        ]
        # A query of an index needs no right on its table.
        filled += [arn for arn in complete if "/index/" in arn] or complete
    if filled:
        return filled
    needed = [pattern for pattern, is_needed in patterns if is_needed]
    unknown = [_filled(pattern, parameters, call, unknown=_UNKNOWN) for pattern in needed]
    return [arn for arn in unknown if arn is not None] or ["*"]


def _spread(parameters: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parameters for each of many tasks, or of many names of parameters."""
    many = [(name, each) for name in ("tasks", "Names") for each in parameters.get(name) or ()]
    return [{**parameters, name: each} for name, each in many if isinstance(each, str)] or [
        parameters
    ]


def _filled(
    pattern: str, parameters: Mapping[str, Any], call: Call, *, unknown: str | None
) -> str | None:
    values = {"Partition": "aws", "Region": call.region, "Account": call.account}
    for name in _VARIABLE.findall(pattern):
        value = values.get(name) or _value(name.lower(), parameters) or unknown
        if value is None:
            return None
        values[name] = value
    return _VARIABLE.sub(lambda found: values[found[1]], pattern)


def _value(name: str, parameters: Mapping[str, Any]) -> str | None:
    lowered = {key.lower(): each for key, each in parameters.items()}
    for parameter in (*_PARAMETERS.get(name, ()), name):
        found = lowered.get(parameter.lower())
        if isinstance(found, str) and found:
            if name in _LAST_OF_A_PATH:
                return found.rpartition("/")[2]
            return found if name == "objectname" else found.lstrip("/")
    return None


def _fits(arn: str, pattern: str) -> bool:
    return fnmatchcase(arn, _VARIABLE.sub("*", pattern))


def _texts(value: Any) -> Iterator[str]:
    """The texts at the top of a call's parameters, and in their lists."""
    for each in value.values():
        if isinstance(each, str):
            yield each
        elif isinstance(each, list):
            yield from (inner for inner in each if isinstance(inner, str))


def _action(call: Call) -> str:
    name = OTHER_NAMES.get((call.service, call.operation), call.operation)
    of_version = call.service == "s3" and call.parameters.get("versionId")
    return f"{name}Version" if of_version else name


def _passed(call: Call, role: str) -> Access:
    service = _PASSED[call.service, call.operation]
    return Access("iam:PassRole", role, {"iam:PassedToService": service})


def _cluster(call: Call, cluster: str) -> Context:
    name = cluster.rsplit("/", 1)[-1]
    return {"ecs:cluster": f"arn:aws:ecs:{call.region}:{call.account}:cluster/{name}"}


# Parameters of a listing that are condition keys.
_S3_KEYS: Final = {"prefix": "s3:prefix", "delimiter": "s3:delimiter", "max-keys": "s3:max-keys"}
_S3_HEADERS: Final = (
    "x-amz-acl",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-storage-class",
    "x-amz-copy-source",
    "if-match",
    "if-none-match",
)


def _s3_context(call: Call) -> Context:
    from_query = {key: call.parameters[n] for n, key in _S3_KEYS.items() if n in call.parameters}
    from_headers = {f"s3:{n}": call.headers[n] for n in _S3_HEADERS if n in call.headers}
    return from_query | from_headers
