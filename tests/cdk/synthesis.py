"""A synthesized stack, easy to read: intrinsics as text, logical ids without their hashes."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from longhaul.cdk.app import build

# isort: split
from aws_cdk import App, Validations  # after `longhaul.cdk`, which tells jsii where Node is
from cdk_nag import AwsSolutionsChecks

from tests.layers import ROOT

NO_COPIES: Final[dict[str, JsonValue]] = {
    "aws:cdk:disable-asset-staging": True,
    "aws:cdk:bundling-stacks": [],
}
"""Context in which assets are neither copied nor bundled: they are thousands of files."""


@dataclass(frozen=True)
class Synthesis:
    folder: Path
    stack_name: str = "Longhaul"

    @cached_property
    def template_file(self) -> Path:
        return self.folder / f"{self.stack_name}.template.json"

    @cached_property
    def template(self) -> dict[str, Any]:
        return json.loads(self.template_file.read_text())

    @cached_property
    def masked(self) -> dict[str, Any]:
        """The template without what differs elsewhere: hashes of assets, places, names of jobs."""
        text = self.template_file.read_text().replace(f'"{ROOT}', '"<checkout>')
        text = re.sub(r"\b[0-9a-f]{64}\b", "<asset>", text)
        text = re.sub(r'(\\+)"jobs\1":\[[^\]]*\]', r'\1"jobs\1":[<jobs>]', text)
        # As an argument of EMR Serverless, whose quotes and brackets are escaped.
        text = re.sub(r"(%22jobs%22:%5B).*?(%5D)", r"\1<jobs>\2", text)
        return json.loads(text)

    @cached_property
    def report(self) -> dict[str, Any]:
        return json.loads((self.folder / "validation-report.json").read_text())

    def resources(self, kind: str) -> dict[str, dict[str, Any]]:
        """Readable properties of the resources of that type, by readable id."""
        return {
            readable_id(name): readable(resource.get("Properties", {}))
            for name, resource in self.template["Resources"].items()
            if resource["Type"] == kind
        }

    def only(self, kind: str) -> dict[str, Any]:
        (properties,) = self.resources(kind).values()
        return properties

    @cached_property
    def definition(self) -> dict[str, Any]:
        return json.loads(self.only("AWS::StepFunctions::StateMachine")["DefinitionString"])

    def statements(self, role: str) -> list[dict[str, Any]]:
        """All statements of the policies of that role."""
        return [
            statement
            for policy in self.resources("AWS::IAM::Policy").values()
            if f"<{role}>" in policy["Roles"]
            for statement in policy["PolicyDocument"]["Statement"]
        ]

    def grants(self, role: str) -> dict[str, set[str]]:
        """Action → resources, for that role."""
        return self._actions(role, "Allow")

    def denials(self, role: str) -> dict[str, set[str]]:
        """Action → resources for which it is denied, for that role."""
        return self._actions(role, "Deny")

    def _actions(self, role: str, effect: str) -> dict[str, set[str]]:
        granted: dict[str, set[str]] = {}
        for statement in self.statements(role):
            if statement["Effect"] != effect:
                continue
            for action in as_list(statement["Action"]):
                granted.setdefault(action, set()).update(as_list(statement["Resource"]))
        return granted

    def asset_files(self, marker: str) -> set[str]:
        """The files of the one asset folder that holds the file `marker`, relative to it."""
        (folder,) = (path for path in self.folder.glob("asset.*") if (path / marker).is_file())
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def synthesize(
    folder: Path,
    settings: Mapping[str, JsonValue],
    *,
    assets: bool = False,
    more: Callable[[App], object] = lambda _: None,
) -> Synthesis:
    """Synthesize with these settings over the usual ones, checked by cdk-nag.

    With `assets` the folder gets a copy of them. `more` changes or checks the app before.
    """
    context: dict[str, JsonValue] = {"longhaul": dict(settings)}
    app = build(outdir=str(folder), context=context if assets else NO_COPIES | context)
    more(app)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    try:
        app.synth()
    except RuntimeError as error:
        # Findings fail the synthesis after everything is written: the test of the report names
        # them, and the other tests still get their template.
        if "ValidationFailed" not in str(error):
            raise
    return Synthesis(folder=folder)


def readable_id(logical_id: str) -> str:
    return re.sub(r"[0-9A-F]{8}$", "", logical_id)


def readable(value: Any) -> Any:
    """The value with intrinsics as text: `<Id.Attribute>`, `<Id>`, joined."""
    match value:
        case {"Ref": str(name)}:
            return f"<{readable_id(name)}>"
        case {"Fn::GetAtt": [str(name), str(attribute)]}:
            return f"<{readable_id(name)}.{attribute}>"
        case {"Fn::Join": [str(separator), [*parts]]}:
            return separator.join(str(readable(part)) for part in parts)
        case {"Fn::Sub": str(text)}:
            return re.sub(r"\$\{([^}]*)}", r"<\1>", text)
        case dict():
            return {key: readable(inner) for key, inner in value.items()}
        case list():
            return [readable(inner) for inner in value]
        case _:
            return value


def as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
