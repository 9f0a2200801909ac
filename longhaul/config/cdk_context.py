"""From the CDK context to `Settings`: merge, validate, and explain what is wrong.

Imports no CDK, so that a wrong setting is refused before a construct is made.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from longhaul.config.errors import Problem, SettingsError
from longhaul.config.settings import CONTEXT_KEY, Settings
from longhaul.config.stages import AdvancedStageDeployment


def merged(below: Mapping[str, JsonValue], above: JsonValue) -> dict[str, JsonValue]:
    """The settings of `below`, overridden by `above`: objects merge, lists and scalars replace.

    Args:
        below: such as those of `cdk.json`.
        above: an object, an object as JSON text (`-c longhaul='{…}'`), or None.

    Raises:
        SettingsError: `above` is no object.
    """
    try:
        over: Any = json.loads(above) if isinstance(above, str) else above or {}
        result: dict[str, JsonValue] = dict(below) | over
    except (TypeError, ValueError) as error:
        raise SettingsError(
            f"{CONTEXT_KEY}: is no object, as in cdk.json: {json.dumps(above)} ({error})"
        ) from error
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(old := below.get(key), dict):
            result[key] = merged(old, value)
    return result


def read(content: Mapping[str, JsonValue]) -> Settings | Sequence[Problem]:
    """The settings, or everything that is wrong with single ones.

    `longhaul.config.rules` looks at what they mean for each other.
    """
    try:
        return Settings.model_validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        return [
            Problem(detail["loc"], _explain(detail))
            for detail in _causes(error.errors(include_url=False))
        ]


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
            # Somebody may have put a value there in the place of an ARN, or an index's password.
            is_secret = not {"secrets", "pip_index"}.isdisjoint(detail["loc"])
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
