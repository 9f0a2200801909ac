"""Which calls to AWS a part of the product can make, read from its source.

A call graph from an entry point: methods and functions, whose receivers are resolved by annotations
of fields and parameters, by constructors, and from a port to every class that has its methods. A
receiver of unknown type stands for every class with such a method, so that no call is missed.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Final

from tests.layers import ROOT, files_of

LAYERS: Final = ("core", "runner", "catalogue")

# Method of a boto3 client → what IAM asks for. S3 answers 403 instead of 404 for an object that is
# not there to a role that may not list.
_READ_OBJECT = ("s3:GetObject", "s3:ListBucket")
ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "get_item": ("dynamodb:GetItem",),
    "batch_get_item": ("dynamodb:BatchGetItem",),
    "put_item": ("dynamodb:PutItem",),
    "update_item": ("dynamodb:UpdateItem",),
    "delete_item": ("dynamodb:DeleteItem",),
    "query": ("dynamodb:Query",),
    "scan": ("dynamodb:Scan",),
    "transact_write_items": (),  # the rights of its parts, see PARTS
    "get_object": _READ_OBJECT,
    "head_object": _READ_OBJECT,
    "download_file": _READ_OBJECT,
    "list_objects_v2": ("s3:ListBucket",),
    "put_object": ("s3:PutObject",),
    "create_multipart_upload": ("s3:PutObject",),
    "upload_part": ("s3:PutObject",),
    "upload_part_copy": ("s3:PutObject", "s3:GetObject"),
    "complete_multipart_upload": ("s3:PutObject",),
    "abort_multipart_upload": ("s3:AbortMultipartUpload",),
    "list_parts": ("s3:ListMultipartUploadParts",),
    "delete_objects": ("s3:DeleteObject",),
    "delete_object": ("s3:DeleteObject",),
    "change_message_visibility": ("sqs:ChangeMessageVisibility",),
    "change_message_visibility_batch": ("sqs:ChangeMessageVisibility",),
    "delete_message": ("sqs:DeleteMessage",),
    "send_message": ("sqs:SendMessage",),
    "send_message_batch": ("sqs:SendMessage",),
    "receive_message": ("sqs:ReceiveMessage",),
    "get_queue_attributes": ("sqs:GetQueueAttributes",),
    "get_schedule": ("scheduler:GetSchedule",),
    "get_secret_value": ("secretsmanager:GetSecretValue",),
    "get_parameter": ("ssm:GetParameter",),
    "publish": ("sns:Publish",),
    "put_events": ("events:PutEvents",),
    "start_execution": ("states:StartExecution",),
    "describe_execution": ("states:DescribeExecution",),
    "stop_execution": ("states:StopExecution",),
    "list_tasks": ("ecs:ListTasks",),
    "describe_tasks": ("ecs:DescribeTasks",),
    "stop_task": ("ecs:StopTask",),
    "list_job_runs": ("emr-serverless:ListJobRuns",),
    "cancel_job_run": ("emr-serverless:CancelJobRun",),
    # Of pyiceberg's catalog. A commit looks where the database is and what the table is now.
    "load_namespace_properties": ("glue:GetDatabase",),
    "load_table": ("glue:GetTable",),
    "create_table_transaction": (),  # the table is made by the commit
    "commit_table": ("glue:GetDatabase", "glue:GetTable", "glue:CreateTable", "glue:UpdateTable"),
}
# The parts of a DynamoDB transaction, as the keys of its dicts.
PARTS: Final[Mapping[str, str]] = {
    "Put": "dynamodb:PutItem",
    "Update": "dynamodb:UpdateItem",
    "Delete": "dynamodb:DeleteItem",
    "ConditionCheck": "dynamodb:ConditionCheckItem",
}
# A receiver of unknown type is more likely one of these than a class of ours.
_BUILTIN = (dict, list, str, set, datetime, re.Match)
# A parameter of a class of Spark's: its methods are none of ours, whatever their names.
_OF_SPARK = "pyspark"
_CLIENTS = ("client", "_client", "s3", "_s3", "catalog", "_catalog")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Class:
    module: str
    node: ast.ClassDef
    methods: dict[str, Function]
    bases: tuple[str, ...]
    fields: dict[str, str] = field(default_factory=dict)  # name → name of its class

    @property
    def is_protocol(self) -> bool:
        return "Protocol" in self.bases


class Source:
    """The classes and functions of the packages. Names of classes are unique among them."""

    def __init__(self) -> None:
        self.classes: dict[str, Class] = {}
        self.functions: dict[tuple[str, str], Function] = {}  # by module and name
        self.imported: dict[str, dict[str, str]] = {}  # module → name there → module it comes from
        for layer in LAYERS:
            for path in files_of(layer):
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                self._read(module, ast.parse(path.read_text("utf-8")))
        for each in self.classes.values():
            each.fields |= self._fields_of(each)

    def _read(self, module: str, tree: ast.Module) -> None:
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                methods = {each.name: each for each in node.body if isinstance(each, Function)}
                # Of two classes with one name, one hides what the other calls. Jobs call nothing.
                if node.name in self.classes and not module.startswith("longhaul.catalogue."):
                    raise AssertionError(f"{node.name} is in {module} and another module")
                bases = tuple(names_in(base)[-1] for base in node.bases if names_in(base))
                self.classes[node.name] = Class(module, node, methods, bases)
            elif isinstance(node, Function):
                self.functions[module, node.name] = node
        imports = self.imported[module] = {}
        for each in ast.walk(tree):
            if isinstance(each, ast.Import):
                imports |= {(a.asname or a.name).partition(".")[0]: a.name for a in each.names}
            elif isinstance(each, ast.ImportFrom) and each.module:
                imports |= {a.asname or a.name: each.module for a in each.names}

    def _fields_of(self, owner: Class) -> dict[str, str]:
        found = {}
        for node in owner.node.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = self.class_in(node.annotation)
            if isinstance(node, Function) and any("property" in each for each in decorators(node)):
                found[node.name] = self.class_in(node.returns)
        for method in owner.methods.values():
            types = self.parameters_of(method)
            for node in ast.walk(method):
                match node:
                    case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]):
                        found[name] = found.get(name) or self.made_by(node.value, types)
                    case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                        found[name] = self.class_in(node.annotation)
        return {name: kind for name, kind in found.items() if kind}

    def parameters_of(self, function: Function) -> dict[str, str]:
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        found = {each.arg: self.class_in(each.annotation) for each in arguments}
        return {name: kind for name, kind in found.items() if kind}

    def class_in(self, annotation: ast.expr | None) -> str:
        """The class of ours that an annotation names, such as `Leases` or `Lease | None`."""
        if annotation is None:
            return ""
        return next((each for each in names_in(annotation) if each in self.classes), "")

    def made_by(self, value: ast.expr, types: Mapping[str, str]) -> str:
        """The class of an expression's value, where annotations and constructors say it."""
        match value:
            case ast.Name(id=name):
                return types.get(name) or (name if name in self.classes else "")
            case ast.Call(func=ast.Name(id="super")):
                return next(iter(self.classes[types["self"]].bases), "")
            case ast.Attribute(value=inner, attr=name):
                owner = self.made_by(inner, types)
                return self.field(owner, name) if owner in self.classes else ""
            case ast.Call(func=ast.Attribute(value=inner, attr=name)):
                owner = self.made_by(inner, types)
                found = self.method(owner, name)
                return self.class_in(self.classes[found[0]].methods[name].returns) if found else ""
            case ast.Call(func=ast.Name(id=name)) if name in self.classes:
                return name
        return ""

    def field(self, owner: str, name: str) -> str:
        found = [self.classes[owner].fields.get(name, "")]
        found += [
            self.field(base, name) for base in self.classes[owner].bases if base in self.classes
        ]
        return next((each for each in found if each), "")

    def implementations(self, name: str) -> Iterator[str]:
        """The classes that may stand for an annotation: itself, or those with its methods."""
        port = self.classes[name]
        if not port.is_protocol:
            yield name
            yield from (other for other, each in self.classes.items() if name in each.bases)
            return
        for other, each in self.classes.items():
            if not each.is_protocol and all(
                self._takes(other, name, method) for name, method in port.methods.items()
            ):
                yield other

    def _takes(self, owner: str, name: str, like: Function) -> bool:
        """Whether the class has the method, with parameters of the same names."""
        found = self.method(owner, name)
        if found is None:
            return False
        method = self.classes[found[0]].methods[name]
        return [each.arg for each in method.args.args] == [each.arg for each in like.args.args]

    def method(self, owner: str, name: str) -> tuple[str, str] | None:
        """The class that defines the method, and the method; looked up in the bases too."""
        if owner not in self.classes:
            return None
        if name in self.classes[owner].methods:
            return owner, name
        found = (self.method(base, name) for base in self.classes[owner].bases)
        return next((each for each in found if each), None)


def names_in(node: ast.AST) -> list[str]:
    """The names of an expression in their order; of `a.b.C` the last; of a text those within."""
    match node:
        case ast.Constant(value=str(text)):
            return names_in(ast.parse(text, mode="eval").body)
        case ast.Name(id=name):
            return [name]
        case ast.Attribute(attr=name):
            return [name]
    return [name for each in ast.iter_child_nodes(node) for name in names_in(each)]


def decorators(function: Function) -> list[str]:
    return [name for each in function.decorator_list for name in names_in(each)]


@cache
def source() -> Source:
    return Source()


def calls_of(*entries: tuple[str, str]) -> set[str]:
    """The actions that the methods `(class, method)` can lead to."""
    known, actions = source(), set()
    todo: list[tuple[str, str]] = list(entries)
    seen = set(todo)
    while todo:
        found, more = look_into(known, *todo.pop())
        actions |= found
        todo += [each for each in more if each not in seen]
        seen |= more
    return actions


def look_into(known: Source, owner: str, name: str) -> tuple[set[str], set[tuple[str, str]]]:
    """The actions of a body, and the methods and functions that it refers to.

    `owner` is a class and `name` its method, or a module and its function.
    """
    is_method = owner in known.classes
    module = known.classes[owner].module if is_method else owner
    body = known.classes[owner].methods[name] if is_method else known.functions[owner, name]
    itself = {"self": owner, "cls": owner} if is_method else {}
    types = {**itself, **known.parameters_of(body)}
    local = {node.name for node in ast.walk(body) if isinstance(node, Function)}
    for node in ast.walk(body):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.withitem(context_expr=value, optional_vars=ast.Name(id=name))
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                local.add(name)
                types.setdefault(name, known.made_by(value, types))
    imports = known.imported[module]
    types |= dict.fromkeys(_parameters_of_spark(body, imports), _OF_SPARK)
    called = {id(node.func) for node in ast.walk(body) if isinstance(node, ast.Call)}
    actions: set[str] = set()
    more: set[tuple[str, str]] = set()
    for node in ast.walk(body):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="get_paginator"),
                args=[ast.Constant(value=str(operation))],
            ):
                actions.update(ACTIONS[operation])
            case ast.Dict(keys=keys):
                texts = (each.value for each in keys if isinstance(each, ast.Constant))
                actions.update(PARTS[each] for each in texts if each in PARTS)
            case ast.Attribute(value=receiver, attr=name) if name in ACTIONS and is_client(
                receiver
            ):
                actions.update(ACTIONS[name])
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in imports and (
                name not in known.classes
            ):
                more.update(known.functions.keys() & {(f"{imports[name]}.{name}", attr)})
            case ast.Attribute(value=receiver, attr=name):
                more.update(_targets(known, types, receiver, name, is_called=id(node) in called))
            case ast.Name(id=name) if name in known.classes:
                made = ("__init__", "__post_init__", "__enter__", "__exit__")
                more.update((name, each) for each in made if each in known.classes[name].methods)
            case ast.Name(id=name) if name not in local:
                more.update(known.functions.keys() & {(imports.get(name, module), name)})
    return actions, more


def _parameters_of_spark(function: Function, imports: Mapping[str, str]) -> Iterator[str]:
    for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        named = names_in(each.annotation) if each.annotation else []
        if any(imports.get(name, "").startswith(_OF_SPARK) for name in named):
            yield each.arg


def is_client(receiver: ast.expr) -> bool:
    return bool(names_in(receiver)) and names_in(receiver)[-1] in _CLIENTS


def _targets(
    known: Source, types: Mapping[str, str], receiver: ast.expr, name: str, *, is_called: bool
) -> Iterator[tuple[str, str]]:
    kind = known.made_by(receiver, types)
    if kind == _OF_SPARK:
        return
    if kind in known.classes:
        classes = [kind] if receiver_is_self(receiver) else list(known.implementations(kind))
    elif is_called and not any(hasattr(each, name) for each in _BUILTIN):
        classes = list(known.classes)
    else:
        return
    for each in classes:
        if found := known.method(each, name):
            yield found


def receiver_is_self(receiver: ast.expr) -> bool:
    return isinstance(receiver, ast.Name) and receiver.id in ("self", "cls")
