"""From a job's name, or the file that a request names, and its parameters to code that can be called."""

import ast
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, JsonValue, ValidationError
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from jobs.api import Job, Params
from jobs.script import ScriptParams, run_script
from longhaul.domain.errors import PermanentJobError

Run = Callable[[SparkSession, Job[Any]], None]
ModelT = TypeVar("ModelT", bound=BaseModel)

_CATALOGUE: Final = "jobs.catalogue"


@dataclass(frozen=True)
class LoadedJob:
    run: Run
    params: BaseModel


def load(job: str, params: Mapping[str, JsonValue], fetch: Callable[[str], Path]) -> LoadedJob:
    """A job with its parameters checked: `run(spark, job)` of a module, or else the whole file as a script.

    Args:
        job: a name in the catalogue (one of the settings' known jobs), or the `s3://` path of a file, which `fetch` brings here.
        params: as the request has them.
        fetch: downloads the file of a path.

    Raises:
        PermanentJobError: a parameter is wrong (the message names it and does not quote its value), or the file is no Python that could run here.
    """
    fetched = fetch(job) if job.startswith("s3://") else None
    file = fetched or _file_in_catalogue(job)
    if not _has_run(job, file):
        script_params = _checked(ScriptParams, params)
        return LoadedJob(lambda _, running: run_script(file, running), script_params)
    module = _import_file(job, fetched) if fetched else importlib.import_module(f"{_CATALOGUE}.{job}")
    model = cast("type[BaseModel]", getattr(module, "Params", Params))
    return LoadedJob(cast("Run", module.run), _checked(model, params))


def _checked(model: type[ModelT], params: Mapping[str, JsonValue]) -> ModelT:
    try:
        return model.model_validate(params)
    except ValidationError as error:
        problems = [
            f"params.{'.'.join(map(str, problem['loc'])) or '(all)'}: {problem['msg'].removeprefix('Value error, ')}"
            for problem in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise PermanentJobError("; ".join(problems)) from None


def _file_in_catalogue(name: str) -> Path:
    spec = importlib.util.find_spec(f"{_CATALOGUE}.{name}")
    if spec is None or spec.origin is None:
        raise PermanentJobError(f"job: the image holds no job {name!r}: it was built before that job")
    return Path(spec.origin)


def _has_run(job: str, file: Path) -> bool:
    """Whether the file defines `run(spark, job)`; told by its text, because to import a script is to run it."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        raise PermanentJobError(f"job: {job} is no Python{line}") from None
    return any(
        isinstance(node, ast.FunctionDef)
        and node.name == "run"
        and [argument.arg.lstrip("_") for argument in node.args.args] == ["spark", "job"]  # `_spark`: not used
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
        raise PermanentJobError(f"job: {job} imports {error.name}, which the image does not hold") from error
    # Spark's Python workers cannot import it: what they run of it travels with the task.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module
