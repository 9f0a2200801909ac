"""The engines whose answers the table compares."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from longhaul.adapters.clock import SystemClock
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import aws_client
from simulation.aws.cloud import FakeAws
from simulation.aws.shapes import checked
from tests.contract.conftest import Aws
from tests.oracles.engines import REGION, Oracles

ENGINES = (
    "fake",
    # Each of these starts servers.
    pytest.param("embedded", marks=pytest.mark.slow),
    pytest.param("oracle", marks=pytest.mark.slow),
)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The name of one of the engines."""
    return str(request.param)


@pytest.fixture
def aws(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Aws]:
    """The engine, without any state."""
    if engine == "fake":
        fake = FakeAws(around=checked)
        yield Aws(fake.client, fake.clock, fake)
    elif engine == "embedded":
        with EmbeddedAws(work_dir=tmp_path / "work", task_dir=tmp_path) as running:
            yield Aws(
                lambda service: aws_client(service, endpoint=running.endpoint, region=REGION),
                SystemClock(),
            )
    else:
        oracles: Oracles = request.getfixturevalue("oracles")
        with oracles.account() as account:
            yield Aws(account.client, SystemClock())
