"""The fixtures for tests of jobs: a plugin of pytest, which is there wherever Longhaul is.

    def test_days_with_enough_flights_are_kept(spark, make_job, written, tmp_path):
        job = make_job({"flights": tmp_path / "flights.csv"}, busy_days.Params(least=2))
        busy_days.run(spark, job)
        assert written(job) == [{"day": 1, "flights": 2}]

Other projects' tests run with it too, so it imports nothing before a test asks for a fixture. They
need the extra `local`, and `spark` for a session. `pytest -p no:longhaul.testing` runs without it.
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pydantic import BaseModel, JsonValue
    from pyspark.sql import SparkSession

    from longhaul.job import Parent, Request
    from longhaul.runner.emitting import Emitter
    from longhaul.runner.running_job import RunningJob

__all__ = [
    "Emitted",
    "KeptResult",
    "MakeJob",
    "Metrics",
    "Written",
    "emitted",
    "kept_result",
    "make_job",
    "metrics",
    "spark",
    "written",
]

# As `longhaul.runner.loading` has it, whose import takes a second.
_JOBS_VARIABLE: Final = "LONGHAUL_JOBS"


class MakeJob(Protocol):
    """What the fixture `make_job` is."""

    def __call__(  # noqa: PLR0913 - what a test may say of a job
        self,
        inputs: "Mapping[str, Path]",
        params: "BaseModel | None" = None,
        emitter: "Emitter | None" = None,
        stage: str | None = None,
        after: "RunningJob[Any] | None" = None,
        parents: "Mapping[str, Parent] | None" = None,
        environment: "Mapping[str, str] | None" = None,
        outputs: "Collection[str]" = (),
        *,
        plain: bool = False,
    ) -> "RunningJob[Any]":
        """A job over local files.

        Args:
            inputs: A file, or a folder with files, by the name of the input.
            params: The job's parameters.
            emitter: Takes what it emits; by default one of the stage.
            stage: The stage that it runs in; by default the project's first.
            after: The attempt before, whose end this one goes on from: it finds the parts,
                checkpoints, folders and state that the other has stored.
            parents: The jobs that wrote its inputs, by the name of the input.
            environment: Variables and secrets of its stage, until the test ends: in `os.environ`,
                and in Python functions that Spark runs.
            outputs: The names of its further outputs, which are prefixes.
            plain: It is for a `run(job)`, which has no Spark.
        """


class Written(Protocol):
    """What the fixture `written` is."""

    def __call__(
        self,
        job: "RunningJob[Any]",
        name: str = ".",
        format_: str = "parquet",
        *,
        output: str = "",
    ) -> list[dict[str, Any]]:
        """The rows of what a job wrote under a name, as dictionaries.

        `output` is the name of a further output; empty: the main one.
        """


class Emitted(Protocol):
    """What the fixture `emitted` is."""

    def __call__(self, job: "RunningJob[Any]", /) -> "dict[str, list[Request]]":
        """The requests that a job emitted, by stage."""


class Metrics(Protocol):
    """What the fixture `metrics` is."""

    def __call__(self, job: "RunningJob[Any]", /) -> "dict[str, float]":
        """What a job measured, by name."""


class KeptResult(Protocol):
    """What the fixture `kept_result` is."""

    def __call__(self, value: object, /) -> "JsonValue":
        """What is kept of what `run` returned, as those who read it get it.

        Raises:
            ValueError: nothing is; a task would say why, and succeed without it.
        """


def pytest_configure() -> None:
    """Let the modules of a project's jobs be imported as a task imports them."""
    if folder := os.environ.get(_JOBS_VARIABLE):
        finder = import_module("longhaul.testing.importing").JobFinder
        sys.meta_path.insert(0, finder(Path(folder)))


def pytest_unconfigure() -> None:
    """Undo it, and end the session of Spark if there is one."""
    if importing := sys.modules.get("longhaul.testing.importing"):
        sys.meta_path[:] = [
            each for each in sys.meta_path if not isinstance(each, importing.JobFinder)
        ]
    if session := sys.modules.get("longhaul.testing.session"):
        session.SESSION.end()


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """A session like a task's, one for all tests."""
    session = _load("session").SESSION
    yield session.get()
    session.end()


@pytest.fixture
def make_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeJob:
    """A job over local files: `make_job({"flights": path}, params)`.

    For a `run(job)`, `plain=True`: no Spark is started.

    A path is a file, or a folder with files, also in partition folders such as `day=2026-01-31`.
    The job runs in the project's first stage, or in the one that `stage` names. `environment` has
    what the stage gives its jobs.
    """
    make: MakeJob = _load("jobs").JobMaker(tmp_path, monkeypatch)
    return make


@pytest.fixture
def written(request: pytest.FixtureRequest) -> Written:
    """Rows that a job wrote, as dictionaries."""
    read: Written = _load("jobs").WrittenRows(lambda: request.getfixturevalue("spark"))
    return read


@pytest.fixture
def emitted() -> Emitted:
    """The requests that a job emitted, by stage."""
    return lambda job: job.emitter.requests or {}


@pytest.fixture
def metrics() -> Metrics:
    """What a job measured, by name."""
    return lambda job: dict(job.metrics)


@pytest.fixture
def kept_result() -> KeptResult:
    """What is kept of what `run` returned: `kept_result(busy_days.run(spark, job))`."""
    keep: KeptResult = _load("jobs").kept_result
    return keep


def _load(name: str) -> Any:  # noqa: ANN401 - one of this package's modules
    try:
        return import_module(f"longhaul.testing.{name}")
    except ModuleNotFoundError as error:
        extra = "spark" if name == "session" else "local"
        pytest.fail(
            f"this fixture of Longhaul needs {error.name}, which is not installed: "
            f"pip install 'longhaul-jobs[{extra}]'",
            pytrace=False,
        )
