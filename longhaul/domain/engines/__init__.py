"""What the domain knows of each engine: one module each, listed here. Pure.

Beside them an engine has a module in `infra/engines/` (its resources, its states of the machine and
its rights), one in `longhaul/adapters/engines/` (finding and stopping what runs), and an entry
point in `jobs/`.
"""

from longhaul.domain.engines import aws_lambda
from longhaul.domain.engines.aws_lambda import LAMBDA
from longhaul.domain.engines.emr_serverless import EMR_SERVERLESS
from longhaul.domain.engines.engine import Engine
from longhaul.domain.engines.fargate import FARGATE

ENGINES: tuple[Engine, ...] = (FARGATE, LAMBDA, EMR_SERVERLESS)


def engine_for(size: str, engine: str) -> str:
    """The engine that runs jobs of that size: Lambda and Fargate share the sizes of one machine."""
    if size == aws_lambda.SIZE:
        return LAMBDA.name
    return FARGATE.name if engine == LAMBDA.name else engine


def engine_named(name: str) -> Engine:
    return next(each for each in ENGINES if each.name == name)


def engine_of(task_ref: str) -> Engine:
    """The engine on which the task of a row's `task_arn` runs."""
    return next((each for each in ENGINES if each.task_mark in task_ref), FARGATE)
