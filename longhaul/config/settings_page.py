"""The tables of docs/reference/settings.md: `python -m longhaul.config.settings_page` writes them.

Names, defaults and ranges come from the models, the reasons from the comments above the fields. A
field without a comment is an error, so that none goes without a reason. Imports no CDK.
"""

import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from longhaul.config.rights import Statement
from longhaul.config.schedule import Schedule
from longhaul.config.settings import NetworkSettings, Settings
from longhaul.config.sizes import Size, Sizes, TinySize
from longhaul.config.stages import StageDeployment, StageLimits
from longhaul.config.trigger import Trigger
from longhaul.engines.emr_serverless.settings import EmrSettings
from longhaul.settings import FollowOnSettings, LeaseSettings

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "settings.md"
BEGIN: Final = "<!-- From here on `python -m longhaul.config.settings_page` writes the page. -->"
SECTIONS: Final[Mapping[str, type[BaseModel]]] = {
    "The stack": Settings,
    "A stage: `stages[]`": StageDeployment,
    "What a request may ask for: `stages[].limits`": StageLimits,
    "Where follow-ons write: `stages[].follow_on`": FollowOnSettings,
    "A right of its jobs: `stages[].policies[]`": Statement,
    "A recurring job: `stages[].schedule`": Schedule,
    "A job for each object: `stages[].on_object`": Trigger,
    "The lease: `lease`": LeaseSettings,
    "The network: `network`": NetworkSettings,
    "The sizes: `sizes`": Sizes,
    "One size: `sizes.small` and so on": Size,
    "The size on Lambda: `sizes.tiny`": TinySize,
    "The second engine: `emr_serverless`": EmrSettings,
}
_UNITS: Final = {
    "_s": "s", "_mib": "MiB", "_gib": "GiB", "_days": "d", "_minutes": "min", "vcpu": "vCPU",
}  # fmt: skip


def tables() -> str:
    """The generated part of the page.

    Raises:
        ValueError: a field has no comment that says why it is what it is.
    """
    return "\n".join(line for title, model in SECTIONS.items() for line in _table(title, model))


def _table(title: str, model: type[BaseModel]) -> Iterator[str]:
    reasons = comments(model)
    yield from (
        "",
        f"### {title}",
        "",
        "| setting | default | allowed | why |",
        "|---|---|---|---|",
    )
    for name, field in model.model_fields.items():
        if name not in reasons:
            raise ValueError(f"{model.__name__}.{name} has no comment that says why")
        cells = (f"`{name}`", _default(name, field), _allowed(name, field), reasons[name])
        yield f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |"


def comments(model: type[BaseModel]) -> dict[str, str]:
    """Field → the comment above it, also of the classes that the model extends."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if issubclass(each, BaseModel) and each is not BaseModel:
            found |= _comments_in(inspect.getsource(each))
    return found


def _comments_in(source: str) -> dict[str, str]:
    lines = textwrap.dedent(source).splitlines()
    (body,) = (node for node in ast.parse("\n".join(lines)).body if isinstance(node, ast.ClassDef))
    found = {}
    for node in body.body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        above: list[str] = []
        for line in reversed(lines[: node.lineno - 1]):
            if not line.strip().startswith("#"):
                break
            above.insert(0, line.strip().removeprefix("#").strip())
        if above:
            found[node.target.id] = " ".join(above)
    return found


def _default(name: str, field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined or isinstance(value, BaseModel):
        return "see below"
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, tuple):
        return "one, `main`" if isinstance(value[0], BaseModel) else ", ".join(map(str, value))
    return f"{_number(value)}{_unit(name, value)}"


def _number(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"`{json.dumps(value)}`"
    return f"{value:,}"


def _unit(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return next((f" {unit}" for end, unit in _UNITS.items() if name.endswith(end)), "")


def _allowed(name: str, field: FieldInfo) -> str:
    kind: Any = field.annotation
    parts = [*_choices(kind)]
    words = {"gt": "more than", "ge": "from", "lt": "less than", "le": "to"}
    for limit in field.metadata:
        for attribute, word in words.items():
            value = getattr(limit, attribute, None)
            if value is not None:
                parts.append(f"{word} {_number(value)}{_unit(name, value)}")
        if pattern := getattr(limit, "pattern", None):
            parts.append(f"`{pattern}`")
    return " ".join(parts) or _type(kind)


def _choices(kind: Any) -> Iterator[str]:  # noqa: ANN401 - any annotation
    if get_origin(kind) is Literal:
        yield ", ".join(f"`{json.dumps(each)}`" for each in get_args(kind))
    elif get_origin(kind) is Annotated:
        for each in kind.__metadata__:
            if pattern := getattr(each, "pattern", None):
                yield f"`{pattern}`"
    elif get_origin(kind) not in (dict, tuple):
        for each in get_args(kind):
            yield from _choices(each)


def _type(kind: Any) -> str:  # noqa: ANN401 - any annotation
    text = re.sub(r"^typing\.|[a-z_]+\.(?=[A-Z])", "", str(kind))
    names = {
        bool: "true, false", int: "integer", str: "text", float: "number",
    }  # fmt: skip
    if kind in names:
        return names[kind]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "object"
    if get_origin(kind) is tuple or "tuple" in text:
        return "list"
    if get_origin(kind) is dict:
        return "object"
    inner = (each for each in get_args(kind) if isinstance(each, type))
    return "object" if any(issubclass(each, BaseModel) for each in inner) else "text"


def page(before: str) -> str:
    """The page with its tables written again; what stands before them stays."""
    return f"{before.partition(BEGIN)[0]}{BEGIN}\n{tables()}\n"


def main() -> int:
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    sys.stdout.write(f"written: {PAGE.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
