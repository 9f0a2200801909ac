"""From the CDK context to `Settings`: merge, validate, and explain what is wrong.

Imports no CDK, so that a wrong setting is refused before a construct is made.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import get_args

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from longhaul.config.errors import Problem, SettingsError
from longhaul.config.rules import problems
from longhaul.config.settings import CONTEXT_KEY, Settings
from longhaul.config.stages import AdvancedStageDeployment


def load(usual: JsonValue, override: JsonValue) -> Settings:
    """The settings of `cdk.json`, overridden by those of the context.

    Objects merge; lists and scalars replace. Each argument is an object, an object as JSON text, or
    None.

    Raises:
        SettingsError: one or more settings are wrong.
    """
    result = read(merged(usual, override))
    if isinstance(result, Settings):
        return result
    raise SettingsError("\n".join(each.at(CONTEXT_KEY) for each in result))


def merged(usual: JsonValue, override: JsonValue) -> dict[str, JsonValue]:
    """Raises SettingsError: one of them is no object."""
    return _merge(_as_object(usual), _as_object(override))


def read(content: Mapping[str, JsonValue]) -> Settings | Sequence[Problem]:
    """The settings, or everything that is wrong with them.

    What they mean for each other is looked at once each of them is what it may be.
    """
    try:
        settings = Settings.model_validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        return [
            Problem(detail["loc"], _explain(detail))
            for detail in _causes(error.errors(include_url=False))
        ]
    return list(problems(settings)) or settings


def _as_object(value: JsonValue) -> dict[str, JsonValue]:
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise SettingsError(
                f"{CONTEXT_KEY}: is not JSON ({error}); allowed: an object, as in cdk.json"
            ) from error
    if not isinstance(value, dict):
        raise SettingsError(
            f"{CONTEXT_KEY}: is {json.dumps(value)}; allowed: an object, as in cdk.json"
        )
    return value


def _merge(below: dict[str, JsonValue], above: dict[str, JsonValue]) -> dict[str, JsonValue]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = (
            _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return merged


def _causes(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """The errors that do not follow from another one.

    Pydantic leaves out the wrong entries of a list, and may then call the list too short as well.
    """
    return [
        detail
        for detail in details
        if not any(
            other["loc"][: len(detail["loc"])] == detail["loc"] != other["loc"] for other in details
        )
    ]


def _explain(detail: ErrorDetails) -> str:
    match detail["type"]:
        case "extra_forbidden":
            name, allowed = str(detail["loc"][-1]), _fields_beside(detail["loc"])
            if "advanced" in allowed and name in AdvancedStageDeployment.model_fields:
                return "is one of a stage's advanced settings: write it under `advanced`"
            return f"is not a setting; {meant(name, allowed)}allowed here: {', '.join(allowed)}"
        case "missing":
            return "is missing"
        case "value_error":  # raised by our validators, which say what is allowed
            return detail["msg"].removeprefix("Value error, ")
        case _:
            reason = f"{detail['msg'][0].lower()}{detail['msg'][1:]}"
            # Somebody may have put a value there in the place of an ARN.
            is_secret = "secrets" in detail["loc"]
            return reason if is_secret else f"is {json.dumps(detail['input'])}; {reason}"


def _fields_beside(location: tuple[int | str, ...]) -> list[str]:
    """The names that the model has at the place where `location` found an unknown one."""
    model: type[BaseModel] = Settings
    for step in location[:-1]:
        if isinstance(step, str):
            annotation = model.model_fields[step].annotation
            inner = [
                kind
                for kind in (annotation, *get_args(annotation))
                if isinstance(kind, type) and issubclass(kind, BaseModel)
            ]
            model = inner[0]
    return sorted(model.model_fields)


def meant(name: str, names: Iterable[str]) -> str:
    """The name that is nearest to one that is not there, as the begin of what is allowed."""
    return "".join(
        f"did you mean {each}? " for each in get_close_matches(name, list(names), n=1, cutoff=0.5)
    )
