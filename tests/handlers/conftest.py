"""What the handlers' tests run on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulation.aws.cloud import FakeAws
from tests.handlers.life import Life
from tests.handlers.stack import Context, Stack, deployed
from tests.handlers.test_stages import STAGES


@pytest.fixture
def stack() -> Iterator[Stack]:
    with deployed(check=True) as found:
        yield found


@pytest.fixture
def pipeline() -> Iterator[Stack]:
    """Three stages, of which the last one joins."""
    with deployed(check=True, stages=STAGES) as found:
        yield found


@pytest.fixture
def aws(stack: Stack) -> FakeAws:
    return stack.aws


@pytest.fixture
def context() -> Context:
    return Context()


@pytest.fixture(scope="session")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one small file: the output of every job."""
    folder = tmp_path_factory.mktemp("output")
    (folder / "part-00000.json").write_text('{"answer":42}\n')
    return folder


@pytest.fixture
def life(stack: Stack, output: Path) -> Life:
    return Life(stack, output)
