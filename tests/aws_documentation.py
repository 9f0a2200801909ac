"""AWS's own text about each call that Longhaul makes, and each parameter that it gives.

A new version of botocore brings new texts. Some of them say that a call which was right is not any
more, such as a limit that did not exist. `tests/aws_documentation.json` has the shape of each
parameter and a digest of its text, so that a new text is seen, and read, before a pin is raised.

    python -m tests.aws_documentation           what has changed, with the new texts
    python -m tests.aws_documentation --read    write it down: these texts have been read
"""

import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import botocore.session
from botocore import xform_name
from botocore.model import ListShape, MapShape, OperationModel, Shape, StructureShape

from longhaul.cdk.definition import definition
from longhaul.engines.emr_serverless.states import EmrJobRun, emr_states
from longhaul.engines.fargate.states import fargate_states
from tests.layers import ROOT, python_files

FILE: Final = ROOT / "tests" / "aws_documentation.json"
# The embedded AWS is moto's; the app is CloudFormation's.
_NOT_OURS: Final = ("longhaul/local", "longhaul/cdk")
# Methods of our own classes, and of others', that have the name of an operation.
_SERVICES: Final = (
    "accessanalyzer",
    "cloudformation",
    "cloudwatch",
    "config",
    "dynamodb",
    "ec2",
    "ecs",
    "emr",
    "emr-serverless",
    "events",
    "glue",
    "iam",
    "lakeformation",
    "lambda",
    "logs",
    "s3",
    "service-quotas",
    "sns",
    "sqs",
    "ssm",
    "stepfunctions",
    "sts",
)
# Of a text, what a reader sees.
_TAGS: Final = re.compile(r"<[^>]*>")

Known = dict[str, dict[str, str]]


def known() -> Known:
    """By name, such as `sqs.SendMessage.QueueUrl`: the shape, and a digest of the text."""
    return {
        name: {"shape": shape_text(shape), "text": digest(text)}
        for name, (shape, text) in sorted(documented().items())
    }


@cache
def documented() -> Mapping[str, tuple[Shape | None, str]]:
    """By name: the shape, None for an operation itself; and the text with those of all inside."""
    found: dict[str, tuple[Shape | None, str]] = {}
    for service, operation, parameters in (*calls(), *integrations()):
        model = _operations(service)[operation]
        found[f"{service}.{model.name}"] = (None, plain(model.documentation))
        for parameter in parameters:
            shape = _member(model, parameter)
            found[f"{service}.{model.name}.{parameter}"] = (shape, "\n".join(texts(shape)))
    return found


def calls() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Service, operation (as boto3 names it) and parameters of each call in the source.

    Where two services have such an operation with these parameters, it is both: which one it is
    only the program knows.
    """
    for file in (*python_files(ROOT / "longhaul"), *python_files(ROOT / "functions")):
        if str(file.relative_to(ROOT)).startswith(_NOT_OURS):
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            yield from _call(node)


def _call(node: ast.AST) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    match node:
        case ast.Call(
            func=ast.Attribute(
                value=ast.Call(
                    func=ast.Attribute(attr="get_paginator"), args=[ast.Constant(value=str(name))]
                ),
                attr="paginate",
            ),
            keywords=keywords,
        ):
            pass
        case ast.Call(func=ast.Attribute(attr=name), args=[], keywords=keywords):
            pass
        case ast.Call(
            func=ast.Name(id="partial"), args=[ast.Attribute(attr=name)], keywords=keywords
        ):
            pass
        case _:
            return
    named = [each.arg for each in keywords if each.arg is not None]
    # `**given` may be any of them.
    is_open = len(named) < len(keywords)
    for service in _SERVICES:
        if (model := _operations(service).get(name)) is None:
            continue
        members = model.input_shape.members if model.input_shape else {}
        required = {*model.input_shape.required_members} if model.input_shape else set()
        if {*named} <= {*members} and (is_open or required <= {*named}):
            yield service, name, tuple(members) if is_open else tuple(named)


def integrations() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The same of the state machine's service integrations, with paths as parameters."""
    run = {
        "Cluster": "x",
        "NetworkConfiguration": {
            "AwsvpcConfiguration": {
                "Subnets": ["x"],
                "SecurityGroups": ["x"],
                "AssignPublicIp": "ENABLED",
            }
        },
    }
    emr = EmrJobRun(
        run=dict.fromkeys(("ApplicationId", "EntryPoint", "EntryPointArguments"), "x"),
        roles={"main": "x"},
        spark="x",
        workers={"small": "x"},
    )
    machine = definition(
        engines=[fargate_states(run, "x", {"main": "x"}, "aws"), emr_states(emr, "aws")],
        heartbeat_arn="x",
        heartbeat_timeout_s=1,
        settle_arn="x",
        settle_timeout_s=1,
        beat_ceiling_s=1,
        partition="aws",
    )
    for state in _tasks(machine):
        service, name = state["Resource"].removeprefix("arn:aws:states:::").split(":")
        # Parameters of optimized integrations are those of the API, in PascalCase.
        yield service, xform_name(name.removesuffix(".sync")), tuple(_paths(state["Parameters"]))


def _tasks(machine: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for state in machine["States"].values():
        if state["Type"] == "Task":
            yield state
        for branch in state.get("Branches", ()):
            yield from _tasks(branch)


def _paths(value: Any, before: str = "") -> Iterator[str]:
    match value:
        case dict():
            for key, each in value.items():
                path = f"{before}{key.removesuffix('.$')}"
                yield path
                yield from _paths(each, f"{path}.")
        case [first, *_]:
            yield from _paths(first, before)


def _member(model: OperationModel, path: str) -> Shape:
    """The shape of a parameter; its first letter may be upper or lower."""
    shape: Any = model.input_shape
    for part in path.split("."):
        while isinstance(shape, ListShape):
            shape = shape.member
        named = {each.lower(): member for each, member in shape.members.items()}
        if part.lower() not in named:
            raise AssertionError(f"{model.name} has no parameter {path}")
        shape = named[part.lower()]
    return shape  # type: ignore[no-any-return]


def texts(shape: Shape, seen: tuple[str, ...] = ()) -> Iterator[str]:
    """The shape's own text, and those of all members inside."""
    yield plain(shape.documentation)
    if shape.name in seen:
        return
    seen = (*seen, shape.name)
    match shape:
        case StructureShape():
            for name, member in shape.members.items():
                yield f"{name}: " + " ".join(texts(member, seen))
        case ListShape():
            yield from texts(shape.member, seen)
        case MapShape():
            yield from texts(shape.value, seen)


def shape_text(shape: Shape | None) -> str:
    """Such as `string 1..80 A|B`; of a structure its members, required ones with a `*`."""
    match shape:
        case None:
            return "operation"
        case StructureShape():
            required = set(shape.required_members)
            members = (f"{each}*" if each in required else each for each in shape.members)
            return f"structure {' '.join(members)}"
        case ListShape():
            return f"list of {shape_text(shape.member)}"
        case MapShape():
            return f"map of {shape.value.type_name}"
    limits = {key: shape.metadata[key] for key in ("min", "max") if key in shape.metadata}
    bounds = f"{limits.get('min', '')}..{limits.get('max', '')}" if limits else ""
    values = "|".join(shape.metadata.get("enum", ()))
    return " ".join(each for each in (shape.type_name, bounds, values) if each)


def plain(text: str) -> str:
    """Without markup and line ends, which change and say nothing."""
    return " ".join(_TAGS.sub(" ", text or "").split())


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def _operations(service: str) -> Mapping[str, OperationModel]:
    model = botocore.session.get_session().get_service_model(service)
    return {xform_name(each): model.operation_model(each) for each in model.operation_names}


def changes(before: Known, after: Known) -> list[str]:
    """A line for each difference, with the text as it is now."""
    lines = [f"- {name}" for name in before.keys() - after.keys()]
    for name, now in after.items():
        if before.get(name) == now:
            continue
        was = before.get(name)
        what = "new" if was is None else "another text" if was["shape"] == now["shape"] else "shape"
        lines.append(f"! {name} ({what}; {now['shape']})\n    {documented()[name][1]}")
    return lines


def main(arguments: list[str], file: Path = FILE) -> int:
    before: Known = json.loads(file.read_text()) if file.exists() else {}
    if arguments == ["--read"]:
        file.write_text(json.dumps(known(), indent=1) + "\n")
        return 0
    lines = changes(before, known())
    sys.stdout.write("".join(f"{each}\n" for each in lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
