"""Use cases alone: what a test does not give is a mock of a port, with the port's methods alone."""

from dataclasses import fields
from typing import Any, TypeVar, get_origin, get_type_hints
from unittest.mock import Mock

from aws_lambda_powertools import Logger

from longhaul.settings import LeaseSettings
from simulation.aws.clock import VirtualClock
from tests.builders import NOW, settings

T = TypeVar("T")
Logger()  # the parent of the loggers of all modules


def alone(use_case: type[T], **parts: Any) -> T:
    """The use case with these parts, a clock at NOW, and default settings."""
    known = {"clock": VirtualClock(NOW), "settings": settings(), "timing": LeaseSettings()}
    types = get_type_hints(use_case)
    names = [field.name for field in fields(use_case)]  # type: ignore[arg-type]
    given = {name: known.get(name, Mock()) for name in names if name != "most_hidden"} | parts
    for name, part in given.items():
        # Otherwise a test would go on passing when a method that it expects has another name.
        if isinstance(part, Mock) and get_origin(types[name]) is None:
            part.mock_add_spec(types[name])
    return use_case(**given)
