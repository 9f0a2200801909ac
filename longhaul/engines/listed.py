"""All engines."""

from longhaul.core.engine import Engines
from longhaul.engines.aws_lambda.ends import LAMBDA
from longhaul.engines.emr_serverless.ends import EMR_SERVERLESS
from longhaul.engines.fargate.ends import FARGATE

ENGINES = Engines((FARGATE, LAMBDA, EMR_SERVERLESS))
