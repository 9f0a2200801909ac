"""Alarms that people hear of, and nothing else does: their one action is a message to a topic.

Metrics come late, those of a queue that wakes by up to 15 minutes. So every alarm looks back over half an hour, longer than any value may be late, and what
has to last for a while before it is worth a call is timed where it is measured (`longhaul.measure`): one late value then tells as much as an unbroken row
of them. A value that comes late can make an alarm late, by as much; it cannot keep it from ringing, nor make it ring for nothing.

`tests/infra/test_alarms.py` plays CloudWatch's evaluation on each of these.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.job_queue import RETENTION
from infra.metrics import EVERY, of_stage, of_sweeper
from infra.settings import StageDeployment, pascal
from longhaul.metrics import StageMetric, SweeperMetric

# Half an hour in periods of five minutes: 15 minutes that a value may be late, a period for the value itself, and two to spare.
PERIODS: Final = 6
# Slots free and messages visible for three sweeps: a dispatcher takes seconds.
BLOCKED_S: Final = 900
NEAR_RETENTION_S: Final = int(RETENTION.to_seconds()) - 86_400

DOCS: Final = "docs/operations.md"

# Queues report nothing while they are idle: no value means no message.
SILENCE_IS_GOOD: Final = cloudwatch.TreatMissingData.NOT_BREACHING
# The sweeper measures these every five minutes, and says 0 too. No value means that nobody looked, which is an alarm of its own: this one stays as it was, so
# that a sweeper that stops neither sounds an all-clear nor hides among false alarms.
SILENCE_SAYS_NOTHING: Final = cloudwatch.TreatMissingData.IGNORE
# Silence is exactly what this is about.
SILENCE_IS_BAD: Final = cloudwatch.TreatMissingData.BREACHING

AT_LEAST: Final = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
BELOW: Final = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD


class Alarms(Construct):
    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        namespace: str,
        stages: Sequence[StageDeployment],
        jobs: Mapping[str, sqs.IQueue],
        dead_letters: Mapping[str, sqs.IQueue],
        undelivered: Mapping[str, sqs.IQueue],
    ) -> None:
        """`jobs` and `dead_letters` by stage; `undelivered`: what EventBridge could not deliver, by what it was."""
        super().__init__(scope, id_)
        self.topic = _topic(self)
        self.all: list[cloudwatch.Alarm] = []
        for stage in stages:
            self._watch_stage(namespace, stage, jobs[stage.name], dead_letters[stage.name])
        for what, queue in undelivered.items():
            self._add(
                f"{pascal(what)}Undelivered",
                f"EventBridge could not deliver what it should have ({what})",
                "undelivered-events",
                _visible(queue),
                threshold=1,
                missing=SILENCE_IS_GOOD,
            )
        self._add(
            "SweeperStopped",
            "The sweeper has not run: what a crash leaves stays as it is, and the other alarms stay as they are",
            "sweeper-stopped",
            of_sweeper(namespace, SweeperMetric.SWEEPS, "Sum"),
            threshold=1,
            comparison=BELOW,
            missing=SILENCE_IS_BAD,
            # All of them: a sweep may be late, and its metric with it.
            of_periods=PERIODS,
        )

    def _watch_stage(self, namespace: str, stage: StageDeployment, jobs: sqs.IQueue, dead_letters: sqs.IQueue) -> None:
        name = pascal(stage.name)
        self._add(
            f"{name}DeadLetters",
            f"Dead letters of {stage.name}: each says in its attribute `longhaul` why",
            "dead-letters",
            # What is there, not what was sent: redrives are not counted as sent.
            _visible(dead_letters),
            threshold=1,
            missing=SILENCE_IS_GOOD,
        )
        self._add(
            f"{name}WithoutBeat",
            f"A job of {stage.name} runs, and nobody extends its lease",
            "lease-without-a-beat",
            of_stage(namespace, StageMetric.WITHOUT_BEAT, stage.name, "Maximum"),
            threshold=1,
            missing=SILENCE_SAYS_NOTHING,
            # The sweep that finds one repairs it, if it can: the next still finding one is what people must hear of.
            of_periods=2,
        )
        self._add(
            f"{name}Blocked",
            f"Messages of {stage.name} wait although slots are free, and nothing starts",
            "blocked-stage",
            of_stage(namespace, StageMetric.BLOCKED, stage.name, "Maximum"),
            threshold=BLOCKED_S,
            missing=SILENCE_SAYS_NOTHING,
        )
        self._add(
            f"{name}Waiting",
            f"A job of {stage.name} has waited for longer than max_wait_s",
            "long-wait",
            # Our own: SQS's ApproximateAgeOfOldestMessage leaves out what was received three times, as what waits for a slot is, and counts what runs.
            of_stage(namespace, StageMetric.OLDEST_WAITING, stage.name, "Maximum"),
            threshold=stage.max_wait_s,
            missing=SILENCE_SAYS_NOTHING,
        )
        self._add(
            f"{name}NearRetention",
            f"SQS will drop the message of a job of {stage.name} within a day",
            "near-retention",
            of_stage(namespace, StageMetric.NEAR_RETENTION, stage.name, "Maximum"),
            threshold=1,
            missing=SILENCE_SAYS_NOTHING,
        )
        self._add(
            f"{name}NeverReceived",
            f"SQS will drop a message of {stage.name} that hardly anybody has received within a day",
            "near-retention",
            # Here SQS's own is right: a job that nobody has received has no row that the sweeper could look at.
            jobs.metric_approximate_age_of_oldest_message(period=EVERY, statistic="Maximum"),
            threshold=NEAR_RETENTION_S,
            missing=SILENCE_IS_GOOD,
        )

    def _add(
        self,
        id_: str,
        text: str,
        anchor: str,
        metric: cloudwatch.IMetric,
        *,
        threshold: int,
        missing: cloudwatch.TreatMissingData,
        comparison: cloudwatch.ComparisonOperator = AT_LEAST,
        of_periods: int = 1,
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            id_,
            alarm_description=f"{text}. What to do: {DOCS}#{anchor}",
            metric=metric,
            threshold=threshold,
            comparison_operator=comparison,
            evaluation_periods=PERIODS,
            datapoints_to_alarm=of_periods,
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        self.all.append(alarm)


def _visible(queue: sqs.IQueue) -> cloudwatch.Metric:
    return queue.metric_approximate_number_of_messages_visible(period=EVERY, statistic="Maximum")


def _topic(scope: Construct) -> sns.Topic:
    # Not under a key: CloudWatch cannot publish under AWS's own, and what alarms say is no secret worth one of ours.
    topic = sns.Topic(scope, "Topic", display_name="Longhaul's alarms", enforce_ssl=True)
    # A policy of our own replaces the one by which the account's CloudWatch could publish.
    topic.add_to_resource_policy(
        iam.PolicyStatement(
            sid="AlarmsPublish",
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=["sns:Publish"],
            resources=[topic.topic_arn],
            conditions={"StringEquals": {"aws:SourceAccount": Stack.of(scope).account}},
        )
    )
    return topic
