"""What a deployed stack costs by itself, whether jobs run or not. Pure.

`tests/cdk/test_standing.py` compares the counts with the template.
"""

from collections.abc import Sequence
from typing import Final

from longhaul.cli.insight.prices import Prices
from longhaul.config.settings import SWEEP_PERIOD
from longhaul.metrics import NoticeMetric, StageMetric, SweeperMetric
from longhaul.settings import RuntimeSettings, Stage

MONTH_S: Final = 30 * 86_400

# Of a mapping whose queue is empty. Source: AWS, "Using Lambda with Amazon SQS".
_POLLERS: Final = 5
_POLL_S: Final = 20

# Of a sweep that finds nothing: memory times time, reads, and its lines in the log. Assumed, not
# measured on AWS.
_SWEEP_GB_S: Final = 1.0 * 1.0
_SWEEP_READS: Final = 10
_SWEEP_LOG_GB: Final = 2e-6

_STACK_ALARMS: Final = 5
_STAGE_ALARMS: Final = 8
_RETIRED_ALARMS: Final = 4


def standing(settings: RuntimeSettings, prices: Prices) -> dict[str, float]:
    """The cost of 30 days by what it is for, in the currency of the prices."""
    stages = settings.stages
    sweeps = MONTH_S / SWEEP_PERIOD.total_seconds()
    a_sweep = (
        prices.lambda_.request
        + _SWEEP_GB_S * prices.lambda_.gb_second[settings.tasks.architecture]
        + _SWEEP_READS * prices.dynamodb.read_unit
    )
    watch = prices.cloudwatch
    return {
        "pollers": len(stages) * _POLLERS * MONTH_S / _POLL_S * prices.sqs.request,
        "sweeper": sweeps * a_sweep,
        "metrics": metrics(stages) * watch.metric_month,
        "alarms": alarms(stages) * watch.alarm_month,
        "dashboard": watch.dashboard_month,
        "logs": sweeps * _SWEEP_LOG_GB * watch.log_gb,
    }


def alarms(stages: Sequence[Stage]) -> int:
    """How many alarms the template has for these stages."""
    return _STACK_ALARMS + sum(
        (_RETIRED_ALARMS if stage.retired else _STAGE_ALARMS) + (stage.notify is not None)
        for stage in stages
    )


def metrics(stages: Sequence[Stage]) -> int:
    """How many metrics these stages, if they work, and the sweeper have."""
    notifying = sum(stage.notify is not None for stage in stages)
    return len(stages) * len(StageMetric) + notifying * len(NoticeMetric) + len(SweeperMetric)
