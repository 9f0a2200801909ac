"""Use cases alone: what a test does not give is a mock of a port, with the port's methods alone."""

from dataclasses import MISSING, Field, fields
from random import Random
from typing import Any, TypeVar, get_origin, get_type_hints
from unittest.mock import Mock

from aws_lambda_powertools import Logger

from longhaul.core.ports import Context
from longhaul.engines.listed import ENGINES
from simulation.aws.clock import VirtualClock
from tests.builders import NOW, settings

T = TypeVar("T", bound=Any)
Logger()  # the parent of the loggers of all modules


def alone(use_case: type[T], **parts: Any) -> T:
    """The use case with these parts, a clock at NOW, and default settings."""
    known = {
        "clock": VirtualClock(NOW),
        "settings": settings(),
        "engines": ENGINES,
        "rng": Random(1),
    }
    shared = [field.name for field in fields(Context)]
    context = parts.pop("context", None) or Context(
        **_specified(Context, shared, known | {k: v for k, v in parts.items() if k in shared})
    )
    # What has a default is left to it.
    own = [field.name for field in fields(use_case) if _is_needed(field)]
    given = {name: part for name, part in parts.items() if name not in shared}
    return use_case(context=context, **_specified(use_case, own, given))


def _is_needed(field: Field[Any]) -> bool:
    has_default = field.default is not MISSING or field.default_factory is not MISSING
    return field.name != "context" and not has_default


def _specified(owner: type[Any], names: list[str], given: dict[str, Any]) -> dict[str, Any]:
    """Parts for these names; a mock has the methods of its type alone.

    Otherwise a test would go on passing when a method that it expects has another name.
    """
    types = get_type_hints(owner)
    found = {name: given.get(name, Mock()) for name in names} | given
    for name, part in found.items():
        if isinstance(part, Mock) and get_origin(types[name]) is None:
            part.mock_add_spec(types[name])
    return found
