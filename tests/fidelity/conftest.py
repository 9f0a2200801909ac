"""The engines whose answers the table compares."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest

from longhaul.core.clients import SystemClock
from simulation.aws.cloud import FakeAws
from simulation.aws.shapes import checked
from tests.contract.conftest import Aws

Engine = Callable[[], AbstractContextManager[Aws]]
"""From nothing to the engine without any state."""


@contextmanager
def _fake() -> Iterator[Aws]:
    fake = FakeAws(around=checked)
    yield Aws(fake.client, fake.clock, fake)


def _oracle(endpoint: str) -> Engine:
    from tests.oracles.dynamodb_local import account_at  # noqa: PLC0415 - as moto's below

    return lambda: nullcontext(Aws(account_at(endpoint), SystemClock()))


@pytest.fixture(scope="module")
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """The engine of this name. One that is a server serves all of its rules."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "fake":
        yield _fake
    elif request.param == "oracle":
        yield _oracle(request.getfixturevalue("oracle"))
    else:
        # `make check` asks the fakes alone: moto and its server are two fifths of all its imports.
        from tests.fidelity.moto_engines import embedded, stock  # noqa: PLC0415

        with (stock if request.param == "stock" else embedded)(folder) as running:
            yield running


@pytest.fixture
def aws(engine: Engine) -> Iterator[Aws]:
    """The engine, without any state."""
    with engine() as empty:
        yield empty
