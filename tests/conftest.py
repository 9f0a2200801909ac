"""Fake credentials, so that no test can reach an AWS account, and patience on busy machines."""

import gc
import importlib
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import botocore.session
import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from tests.shared_spark import FOLDER, uses_spark

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

# Each test on moto has a session of its own, which would parse megabytes of JSON about AWS's
# services, and look for more of them on the disk. Within a session all clients share one loader.
botocore.session.create_loader = cache(botocore.session.create_loader)

# A deployed stack takes seven seconds of CPU. The CDK's Node takes five to load its library, and
# each stack is synthesized once for all.
_STACK, _INFRA = "tests/e2e/", "tests/cdk/"
# They have the longest tests, and few in a file: begun last, one of them would end long after all.
# Two files alone take ten minutes: all seeded bugs in one test, and single faults in many worlds.
_FIRST = (
    "tests/simulation/test_mutants.py",
    "tests/simulation/test_counted_worlds.py",
    _STACK,
    FOLDER,
    "tests/slow/",
    "tests/simulation/",
    _INFRA,
    "tests/fidelity/",
)


class SharedFixtures(LoadFileScheduling):
    """As `--dist loadfile`, but one worker runs all that share an expensive fixture.

    The slow tests of the stack and of the template are too many for one worker.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        if uses_spark(file):
            return FOLDER
        shared = (_STACK, _INFRA) if self.config.option.markexpr == "not slow" else ()
        return next((folder for folder in shared if file.startswith(folder)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedFixtures | None:
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # by number of tests: a long test may be alone
    return SharedFixtures(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let workers begin with the longest groups of files, and so with Spark's."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _turn(item.nodeid.partition("::")[0]))


def _turn(file: str) -> int:
    if uses_spark(file):
        return -1
    return next((n for n, folder in enumerate(_FIRST) if file.startswith(folder)), len(_FIRST))


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
def oracle() -> Iterator[str]:
    """The endpoint of DynamoDB Local, which is imported only where a test needs it."""
    with importlib.import_module("tests.oracles.dynamodb_local").dynamodb_local() as endpoint:
        yield endpoint
