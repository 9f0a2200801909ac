"""The names that others may use of a public module, and which of them say nothing of themselves."""

import inspect
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any

from pydantic import BaseModel


def members(module: ModuleType) -> dict[str, str]:
    """Public name → the names of its own members, in their order, separated by blanks."""
    return {name: " ".join(_members(getattr(module, name))) for name in module.__all__}


def undocumented(module: ModuleType) -> list[str]:
    """The classes, functions and methods without a docstring."""
    silent = []
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            silent += [] if _says_something(value) else [name]
            silent += [
                f"{name}.{member}"
                for member in _members(value)
                if _is_code(vars(value).get(member)) and not inspect.getdoc(vars(value)[member])
            ]
    return silent


def _members(value: Any) -> list[str]:
    if not inspect.isclass(value) or issubclass(value, BaseModel):
        return []  # docs/reference/settings.md has the fields of settings
    own = [each.name for each in fields(value)] if is_dataclass(value) else []
    code = (name for name, each in vars(value).items() if _is_code(each))
    return [*own, *(name for name in code if not name.startswith("_") and name not in own)]


def _is_code(value: object) -> bool:
    return isinstance(value, property | classmethod | staticmethod) or inspect.isfunction(value)


def _says_something(value: Any) -> bool:
    """A dataclass without a docstring gets its signature as one."""
    own = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    return bool(own) and not str(own).startswith(f"{value.__name__}(")
