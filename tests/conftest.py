"""Fake credentials, so that no test can reach an AWS account, and patience on busy machines."""

import gc
import importlib
import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

pytest_plugins = ["tests.left_behind", "longhaul.testing"]

os.environ.update(
    AWS_ACCESS_KEY_ID="testing",
    AWS_SECRET_ACCESS_KEY="testing",
    AWS_DEFAULT_REGION="us-east-1",
    AWS_EC2_METADATA_DISABLED="true",
    POWERTOOLS_TRACE_DISABLED="1",
    POWERTOOLS_SERVICE_NAME="longhaul",
)
os.environ.pop("AWS_PROFILE", None)

settings.register_profile("patient", deadline=None)  # a slow machine is no wrong example
settings.load_profile("patient")

# A Spark session takes half a minute of CPU until it is warm, and a deployed stack a quarter. The
# CDK's Node takes five seconds to load its library, and each stack is synthesized once for all.
_SPARK, _STACK, _INFRA = "tests/runner/", "tests/e2e/", "tests/cdk/"


class SharedFixtures(LoadFileScheduling):
    """As `--dist loadfile`, but one worker runs all that share an expensive fixture.

    The slow tests of the stack and of the template are too many for one worker.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        is_quick = self.config.option.markexpr == "not slow"
        shared = (_SPARK, _STACK, _INFRA) if is_quick else (_SPARK,)
        return next((folder for folder in shared if file.startswith(folder)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedFixtures | None:
    return SharedFixtures(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of Python's searches for garbage: they stay anyway."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests of tools recorded for the end of the log, as `says`."""
    for report in terminalreporter.getreports("passed"):
        for name, said in report.user_properties:
            if name == "says":
                terminalreporter.write_line(str(said))


@pytest.fixture(scope="session")
def oracles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`tests.oracles.engines.Oracles`, which is imported only where a test needs it."""
    engines = importlib.import_module("tests.oracles.engines")
    with closing(engines.Oracles(tmp_path_factory.mktemp("oracles"))) as running:
        yield running
