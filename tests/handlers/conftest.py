"""What the handlers' tests run on."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functions.dispatcher import logger as functions_logger
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


Log = list[dict[str, Any]]


class Kept(logging.Handler):
    """Formats each line at once, as the functions' handler does.

    Later, the log context no longer has the job's keys.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(functions_logger.registered_formatter)
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@pytest.fixture
def log() -> Iterator[Log]:
    kept, parent = Kept(), logging.getLogger(functions_logger.name)
    parent.addHandler(kept)
    yield kept.lines
    parent.removeHandler(kept)
