"""From a job's name, or the file that a request names, and its parameters to a callable."""

import ast
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from botocore.exceptions import ClientError
from pydantic import BaseModel, JsonValue, PydanticUserError, ValidationError

from longhaul.core.aws_errors import code_of
from longhaul.core.job_kinds import JobKind, SignatureError, kind_of
from longhaul.core.places import DataPath
from longhaul.core.request import name_of
from longhaul.core.verdict import OutcomeClass
from longhaul.job import Params, PermanentJobError
from longhaul.runner.failures import (
    cause,
    heeding_exits,
    may_be_jvm_death,
    of_error,
    text_of,
    with_requirement,
)
from longhaul.runner.job_file import (
    BROUGHT,
    code_digest,
    file_in_catalogue,
    file_in_project,
    jobs_of_project,
)
from longhaul.runner.running_job import RunningJob

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyspark.sql import SparkSession

Run = Callable[["SparkSession", RunningJob[Any]], None]
"""A plain job's takes no notice of the session."""

ModelT = TypeVar("ModelT", bound=BaseModel)

_CATALOGUE: Final = "longhaul.catalogue"
# Code that people write is a few KB. A larger file is a mistake, such as a path to data.
MAX_CODE_BYTES: Final = 1024 * 1024
_NOT_THERE: Final = {"NoSuchKey", "NoSuchBucket", "404"}
_NOT_OURS: Final = {"AccessDenied", "403"}
# What is wrong with a file of the image stays wrong. Any other OSError may be one of the network.
_OF_FILES: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


@dataclass(frozen=True)
class LoadedJob:
    """A job, ready to run."""

    run: Run
    params: BaseModel


@dataclass(frozen=True)
class FoundJob:
    """A job's code, before any of it runs. `code` is a digest of all that decides what it computes.

    `load` gets the parameters as the request has them, and what makes Spark's session this
    thread's. A module that people wrote for Spark may use it while it is imported, as
    `@udf("string")` does. The catalogue's own do not.
    """

    load: Callable[[Mapping[str, JsonValue], Callable[[], None]], LoadedJob]
    """The job, with its parameters checked.

    Raises:
        PermanentJobError: a parameter is wrong, which the message names without its value; or the
            file is not Python that can run here.
        Exception: as Spark's start raises it; or as the module's import does, where the next
            attempt may do better.
    """
    code: str = ""
    kind: JobKind = JobKind.SPARK
    needs_session: bool = False  # `load` waits for it


def find_job(job: str, fetch: Callable[[str], Path]) -> FoundJob:
    """The job: `run(spark, job)` or `run(job)` of a module, or else the whole file as a script.

    Args:
        job: a name in the catalogue (one of the settings' known jobs), or the `s3://` path of a
            file, for `fetch`.
        fetch: downloads the file of a path.

    Raises:
        PermanentJobError: there is none, or it is no Python.
    """
    fetched = fetch(job) if job.startswith(BROUGHT) else None
    file = fetched or file_in_project(job) or file_in_catalogue(job)
    if file is None:
        raise PermanentJobError(
            f"job: the image holds no job {job!r}: it was built before that job"
        )
    code = code_digest(file, jobs_of_project())
    kind = _kind_of(job, file)
    is_of_project = file.parent == jobs_of_project()
    needs_session = kind is JobKind.SPARK and (fetched is not None or is_of_project)

    def load(params: Mapping[str, JsonValue], await_session: Callable[[], None]) -> LoadedJob:
        if kind is JobKind.SCRIPT:
            return _script(file, params)
        if needs_session:
            await_session()
        if fetched:
            module = _import_file(job, fetched)
        elif is_of_project:
            with _naming_its_place(file):
                # Under the name that Spark's Python workers know as well.
                module = importlib.import_module(job)
        else:
            module = importlib.import_module(f"{_CATALOGUE}.{job}")
        if needs_session:
            _send_along(module, file, is_brought=fetched is not None)
        return _of_module(module, kind, file, params)

    return FoundJob(load, code, kind, needs_session)


def _script(file: Path, params: Mapping[str, JsonValue]) -> LoadedJob:
    from longhaul.runner.script import ScriptParams, run_script  # noqa: PLC0415 - imports PySpark

    return LoadedJob(lambda _, running: run_script(file, running), _checked(ScriptParams, params))


def _of_module(
    module: ModuleType, kind: JobKind, file: Path, params: Mapping[str, JsonValue]
) -> LoadedJob:
    model = getattr(module, "Params", Params)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise PermanentJobError(
            f"job: Params of {file.name} is no pydantic model; derive it from longhaul.job.Params"
        )

    def run_module(spark: "SparkSession", job: RunningJob[Any]) -> None:
        with heeding_exits():
            job.result = module.run(job) if kind is JobKind.PLAIN else module.run(spark, job)

    return LoadedJob(run_module, _checked(model, params))


def _checked(model: type[ModelT], params: Mapping[str, JsonValue]) -> ModelT:
    try:
        return model.model_validate(params)
    except ValidationError as error:
        problems = [
            f"params.{'.'.join(name_of(str(part)) for part in problem['loc']) or '(all)'}:"
            f" {problem['msg'].removeprefix('Value error, ')}"
            for problem in error.errors(
                include_url=False, include_input=False, include_context=False
            )
        ]
        raise PermanentJobError("; ".join(problems)) from None
    except PydanticUserError as error:
        raise PermanentJobError(f"job: Params cannot be used: {error.message}") from error


def _send_along(module: ModuleType, file: Path, *, is_brought: bool) -> None:
    """Let what Spark's Python workers cannot import travel with what they run."""
    from longhaul.runner.spark import imports  # noqa: PLC0415 - as above

    if is_brought:
        imports.send_along(module)
        return
    for each in list(sys.modules.values()):
        if _is_within(getattr(each, "__file__", None), file.parent):
            imports.send_along_if_needed(each)


def _kind_of(job: str, file: Path) -> JobKind:
    try:
        return kind_of(ast.parse(file.read_bytes()))
    except SignatureError as error:
        raise PermanentJobError(f"job: {file.name}:{error.line}: {error}") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"{file.name}:{line}" if line else job
        raise PermanentJobError(f"job: {where} is no Python") from None


def _import_file(job: str, file: Path) -> ModuleType:
    name = "fetched_" + re.sub(r"\W", "_", file.stem)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PermanentJobError(f"job: {job} is no Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    with _naming_its_place(file):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _naming_its_place(file: Path) -> Iterator[None]:
    """Let an error of the file's import name the line where it was raised.

    Raises:
        PermanentJobError: the next attempt would meet the same error.
        Exception: as the import raises it, where the next attempt may do better.
    """
    try:
        yield
    except PermanentJobError:
        raise
    except (Exception, SystemExit) as error:
        if _may_pass(error):
            raise
        place = _place_of(error, file)
        said = with_requirement(cause(error, text_of(error).strip()))
        raise PermanentJobError(f"job: {place}: {said}") from error


def _may_pass(error: Exception | SystemExit) -> bool:
    """Whether the machine, the network or AWS may be at fault, rather than the code."""
    is_trouble = isinstance(error, OSError) and not isinstance(error, _OF_FILES)
    is_of_code = of_error(error).kind in (OutcomeClass.FAILED, OutcomeClass.PERMANENT)
    return is_trouble or may_be_jvm_death(error) or not is_of_code


def _place_of(error: BaseException, file: Path) -> str:
    """The file and the line, as in `flights.py:12`, where code of the file's folder was last."""
    places = [(str(file), 1)]
    places += [(each.filename, each.lineno or 1) for each in extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        places.append((error.filename or "", error.lineno or 1))
    found, line = next(each for each in reversed(places) if _is_within(each[0], file.parent))
    return f"{Path(found).relative_to(file.parent)}:{line}"


def _is_within(file: str | None, folder: Path) -> bool:
    return file is not None and Path(file).is_relative_to(folder)


def fetch_code(client: "S3Client", path: DataPath, folder: Path) -> Path:
    """Download the file into `folder`, under its own name.

    Raises:
        PermanentJobError: it is not there, too large, or not to be read by this task.
    """
    try:
        answer = client.get_object(Bucket=path.bucket, Key=path.key)
    except ClientError as error:
        if code_of(error) in _NOT_THERE:
            raise PermanentJobError(f"job: nothing at {path}") from error
        if code_of(error) in _NOT_OURS:
            raise PermanentJobError(
                f"job: {path} is not there, or the task's role may not read it"
            ) from error
        raise
    if answer["ContentLength"] > MAX_CODE_BYTES:
        raise PermanentJobError(
            f"job: {path} has {answer['ContentLength']} bytes, more than the {MAX_CODE_BYTES}"
            " that a job's code may have"
        )
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / path.key.rpartition("/")[2]
    file.write_bytes(answer["Body"].read())
    return file
