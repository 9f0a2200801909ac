"""The tables of docs/reference/settings.md: `python -m docs.settings_page` writes them.

One for each model that `Settings` reaches. Names, defaults and ranges come from its JSON schema,
the reasons from the comments above its fields. A field without a comment is an error.
"""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel

from longhaul.config.settings import Settings

PAGE: Final = Path(__file__).resolve().parent / "reference" / "settings.md"
BEGIN: Final = "<!-- From here on `python -m docs.settings_page` writes the page. -->"
_FIELD: Final = re.compile(r"((?:^    #.*\n)+)^    (\w+):", re.MULTILINE)
_UNITS: Final = {
    "_s": "s", "_mib": "MiB", "_gib": "GiB", "_days": "d", "_minutes": "min", "vcpu": "vCPU",
}  # fmt: skip
_BOUNDS: Final = {"exclusiveMinimum": "more than", "minimum": "from", "maximum": "to"}
_WORDS: Final = {"boolean": "true, false", "string": "text", "array": "list"}


def sections(model: type[BaseModel] = Settings, path: str = "") -> dict[type[BaseModel], str]:
    """Each model in the settings → its path, such as `stages[].advanced`; of several the first."""
    found = {model: path}
    for name, field in model.model_fields.items():
        for place, inner in _models(field.annotation, f"{path}.{name}".strip(".")):
            found |= {each: at for each, at in sections(inner, place).items() if each not in found}
    return found


def _models(kind: Any, path: str) -> Iterator[tuple[str, type[BaseModel]]]:  # noqa: ANN401
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield path, kind
    for each in get_args(kind):
        yield from _models(each, f"{path}[]" if get_origin(kind) is tuple else path)


def page(before: str) -> str:
    """The page with its tables written again; what stands before them stays.

    Raises:
        KeyError: a field has no comment that says why it is what it is.
    """
    lines = [line for model, path in sections().items() for line in _table(path, model)]
    return "\n".join([f"{before.partition(BEGIN)[0]}{BEGIN}", *lines, ""])


def _table(path: str, model: type[BaseModel]) -> Iterator[str]:
    reasons, schema = comments(model), model.model_json_schema()
    yield from ("", f"### `{path}`" if path else "### The stack", "")
    yield from (str(model.__doc__).partition("\n\n")[0].replace("\n    ", " "), "")
    yield from ("| setting | default | allowed | why |", "|---|---|---|---|")
    for name, setting in schema["properties"].items():
        unit = next((f" {unit}" for end, unit in _UNITS.items() if name.endswith(end)), "")
        default = "required" if name in schema.get("required", ()) else _default(setting, unit)
        cells = (f"`{name}`", default, _allowed(setting, unit), reasons[name])
        yield f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |"


def comments(model: type[BaseModel]) -> dict[str, str]:
    """Field → the comment above it, also of the classes that the model extends."""
    return {
        name: re.sub(r"\s*\n\s+# ", " ", above.strip()).removeprefix("# ")
        for each in reversed(model.__mro__)
        if issubclass(each, BaseModel) and each is not BaseModel
        for above, name in _FIELD.findall(inspect.getsource(each))
    }


def _default(setting: Mapping[str, Any], unit: str) -> str:
    value = setting.get("default")
    if "$ref" in setting:
        return "see below"
    if value in (None, [], {}):
        return "none"
    return "one, `main`" if isinstance(value, list) else _value(value, unit)


def _allowed(setting: Mapping[str, Any], unit: str) -> str:
    if "anyOf" in setting:
        kinds = (each for each in setting["anyOf"] if each.get("type") != "null")
        return " or ".join(_allowed(each, unit) for each in kinds)
    if choices := setting.get("enum", [setting["const"]] if "const" in setting else []):
        return ", ".join(f"`{json.dumps(each)}`" for each in choices)
    if "pattern" in setting:
        return f"`{setting['pattern']}`"
    kind = setting.get("type", "object")
    given = (f"{_BOUNDS[key]} {_value(setting[key], unit)}" for key in _BOUNDS if key in setting)
    return " ".join(given) or _WORDS.get(kind, kind)


def _value(value: object, unit: str) -> str:
    if isinstance(value, bool | str):
        return f"`{json.dumps(value)}`"
    return f"{value:,}{unit}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
