"""What a task logs."""

import logging
from collections.abc import Iterator

import pytest
from pyspark.logger import PySparkLogger

from jobs.json_logs import configure

QUOTING = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@pytest.fixture
def logs() -> Iterator[None]:
    """Logging as it was, afterwards."""
    root = logging.getLogger()
    handlers, level, known = root.handlers[:], root.level, root.manager.loggerDict.copy()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in QUOTING:
        logging.getLogger(name).disabled = False
        if name not in known:  # PySpark must make its own: it logs with arguments that ours lacks
            del root.manager.loggerDict[name]


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize("name", QUOTING)
def test_pysparks_own_loggers_print_no_query(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure(lease="main#a")

    PySparkLogger.getLogger(name).error("SELECT 'secret'")
    logging.getLogger("jobs").error("a line of ours")

    printed = capsys.readouterr().err
    assert "a line of ours" in printed
    assert "secret" not in printed
