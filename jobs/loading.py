"""From a job's name, or the file that a request names, and its parameters to a callable."""

import ast
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from botocore.exceptions import ClientError
from pydantic import BaseModel, JsonValue, ValidationError
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from jobs.running_job import RunningJob
from jobs.script import ScriptParams, heeding_exits, run_script
from longhaul.adapters.errors import code_of
from longhaul.domain.paths import DataPath
from longhaul.domain.quoting import name_of
from longhaul.job import Job, Params, PermanentJobError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

Run = Callable[[SparkSession, RunningJob[Any]], None]
_JobsRun = Callable[[SparkSession, Job[Any]], None]
ModelT = TypeVar("ModelT", bound=BaseModel)

_CATALOGUE: Final = "jobs.catalogue"
JOBS_VARIABLE: Final = "LONGHAUL_JOBS"
"""Names the folder of a project's jobs, which is on PYTHONPATH too. The image sets both."""
# Code that people write is a few KB. A larger file is a mistake, such as a path to data.
MAX_CODE_BYTES: Final = 1024 * 1024
_NOT_THERE: Final = {"NoSuchKey", "NoSuchBucket", "404"}
_NOT_OURS: Final = {"AccessDenied", "403"}


@dataclass(frozen=True)
class LoadedJob:
    run: Run
    params: BaseModel


def load(job: str, params: Mapping[str, JsonValue], fetch: Callable[[str], Path]) -> LoadedJob:
    """The job, with its parameters checked.

    It is `run(spark, job)` of a module, or else the whole file as a script.

    Args:
        job: a name in the catalogue (one of the settings' known jobs), or the `s3://` path of a
            file, for `fetch`.
        params: as the request has them.
        fetch: downloads the file of a path.

    Raises:
        PermanentJobError: a parameter is wrong (the message names it and does not quote its value),
            or the file is not Python that can run here.
    """
    fetched = fetch(job) if job.startswith("s3://") else None
    file = fetched or _file_in_project(job) or _file_in_catalogue(job)
    if not _has_run(job, file):
        script_params = _checked(ScriptParams, params)
        return LoadedJob(lambda _, running: run_script(file, running), script_params)
    module = _import_file(job, fetched) if fetched else _import_module(job, file)
    model = getattr(module, "Params", Params)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise PermanentJobError(
            f"job: Params of {file.name} is no pydantic model; derive it from longhaul.job.Params"
        )
    run = cast("_JobsRun", module.run)

    def run_module(spark: SparkSession, job: RunningJob[Any]) -> None:
        with heeding_exits():
            run(spark, job)

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


def _file_in_project(name: str) -> Path | None:
    """The file of a project's job; None for the catalogue's own."""
    folder = os.environ.get(JOBS_VARIABLE)
    file = Path(folder or "") / f"{name}.py"
    return file if folder and file.is_file() else None


def _import_module(name: str, file: Path) -> ModuleType:
    """The module of a job, under the name that Spark's Python workers know as well."""
    if file.parent == Path(os.environ.get(JOBS_VARIABLE, "-")):
        return importlib.import_module(name)
    return importlib.import_module(f"{_CATALOGUE}.{name}")


def _file_in_catalogue(name: str) -> Path:
    spec = importlib.util.find_spec(f"{_CATALOGUE}.{name}")
    if spec is None or spec.origin is None:
        raise PermanentJobError(
            f"job: the image holds no job {name!r}: it was built before that job"
        )
    return Path(spec.origin)


def _has_run(job: str, file: Path) -> bool:
    """Whether the file's text defines `run(spark, job)`. An import would run a script."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        raise PermanentJobError(f"job: {job} is no Python{line}") from None
    return any(
        isinstance(node, ast.FunctionDef)
        and node.name == "run"
        and [argument.arg.lstrip("_") for argument in node.args.args]
        == ["spark", "job"]  # `_spark`: not used
        for node in tree.body
    )


def _import_file(job: str, file: Path) -> ModuleType:
    name = "fetched_" + re.sub(r"\W", "_", file.stem)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PermanentJobError(f"job: {job} is no Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise PermanentJobError(
            f"job: {job} imports {error.name}, which the image does not hold"
        ) from error
    # Spark's Python workers cannot import it: what they run of it travels with the task.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


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
