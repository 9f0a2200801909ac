"""The client against the strict fakes, with the deployed stack of the command's tests."""

from typing import Any

import pytest

from longhaul.client import Client
from tests.cli.conftest import (  # noqa: F401 - fixtures
    Session,
    World,
    bare,
    ctrl_c_twice,
    world,
)


def connected(to: World, stack: str = "Longhaul") -> Client:
    session: Any = Session(to.aws)
    return Client(stack, session=session)


@pytest.fixture
def client(world: World) -> Client:  # noqa: F811 - the fixture
    return connected(world)
