"""All engines, and which of them is meant. Pure."""

from typing import Any

from longhaul.engines.aws_lambda.ends import LAMBDA, SIZE
from longhaul.engines.emr_serverless.ends import EMR_SERVERLESS
from longhaul.engines.engine import Engine
from longhaul.engines.fargate.ends import FARGATE

ENGINES: tuple[Engine, ...] = (FARGATE, LAMBDA, EMR_SERVERLESS)


def engine_for(size: str, engine: str) -> str:
    """The engine that runs jobs of that size: Lambda and Fargate share the sizes of one machine."""
    if size == SIZE:
        return LAMBDA.name
    return FARGATE.name if engine == LAMBDA.name else engine


def engine_named(name: str) -> Engine:
    return next(each for each in ENGINES if each.name == name)


def engine_of(task_ref: str) -> Engine:
    """The engine on which the task of a row's `task_arn` runs."""
    return next((each for each in ENGINES if each.task_mark in task_ref), FARGATE)


def engine_describing(task: dict[str, Any]) -> Engine:
    """The engine of a task that Step Functions describes so."""
    return next((each for each in ENGINES if each.described_by in task), FARGATE)
