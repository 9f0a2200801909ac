"""From a job's name and parameters to code that can be called."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel, JsonValue, ValidationError
from pyspark.sql import SparkSession

from jobs.api import Job, Params
from longhaul.domain.errors import PermanentJobError

Run = Callable[[SparkSession, Job[Any]], None]


@dataclass(frozen=True)
class LoadedJob:
    run: Run
    params: BaseModel


def load(name: str, params: Mapping[str, JsonValue]) -> LoadedJob:
    """The job of that name in the catalogue, with its parameters checked. `name` is one of the settings' known jobs.

    Raises:
        PermanentJobError: a parameter is wrong; the message names it and does not quote its value.
    """
    module = importlib.import_module(f"jobs.catalogue.{name}")
    model = cast("type[BaseModel]", getattr(module, "Params", Params))
    try:
        parsed = model.model_validate(params)
    except ValidationError as error:
        problems = [
            f"params.{'.'.join(map(str, problem['loc'])) or '(all)'}: {problem['msg'].removeprefix('Value error, ')}"
            for problem in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise PermanentJobError("; ".join(problems)) from None
    return LoadedJob(cast("Run", module.run), parsed)
