"""Alarms for people: their only action is a message to a topic.

Metrics come late, those of a queue that wakes by up to 15 minutes. So every alarm looks back over
half an hour or more, longer than any value may be late. Where a condition must last before people
are called, the sweeper measures how long it has lasted (`longhaul.core.sweep`), so one late value
says as much as an unbroken row of values. A late value can delay an alarm by as much; it cannot
prevent an alarm, and it cannot cause a false one. (A day's sum of wasted work may be wrong by the
values that are late: a hundredth of a day's.)

`tests/cdk/test_alarms.py` runs CloudWatch's evaluation on each of these alarms.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from longhaul.cdk.metrics import PERIOD, of_job, of_stage, of_sweeper
from longhaul.cdk.queues import RETENTION, StageQueues
from longhaul.config.settings import Settings
from longhaul.config.stages import StageDeployment, pascal, watched
from longhaul.core.metrics import NoticeMetric, StageMetric, SweeperMetric

# Half an hour: three periods that a value may be late, one for the value itself, two to spare.
PERIODS: Final = 6
# Slots were free and messages visible for three sweeps. A working dispatcher takes seconds.
BLOCKED_S: Final = 900
# Rights and subnets that were just made are refused for some seconds. The next try comes after as
# long again at most; with a sweep and a late value, the alarm rings within half an hour.
REFUSED_S: Final = 180
# What an ended job owes takes seconds, and after an outage one sweep.
OWED_S: Final = 3_600
# Beyond what was useful on the same day: more than half of the work, and an hour at least.
WASTED_S: Final = 3_600
DAY: Final = Duration.days(1)
# Messages are renewed after a week at the latest, or half a day later.
NEAR_RETENTION_S: Final = int(RETENTION.to_seconds()) - 6 * 86_400

DOCS: Final = "docs/operations.md"

# An idle queue reports nothing: no value means no message.
SILENCE_IS_GOOD: Final = cloudwatch.TreatMissingData.NOT_BREACHING
# The sweeper reports these every five minutes, zeros too. No value means that no sweep ran, which
# has an alarm of its own. This alarm keeps its state: a stopped sweeper neither clears alarms nor
# raises false ones.
SILENCE_SAYS_NOTHING: Final = cloudwatch.TreatMissingData.IGNORE
# The missing value is the trouble.
SILENCE_IS_BAD: Final = cloudwatch.TreatMissingData.BREACHING

AT_LEAST: Final = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
BELOW: Final = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
_COMPARISONS: Final[Mapping[str, cloudwatch.ComparisonOperator]] = {
    ">": cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
    ">=": AT_LEAST,
    "<": BELOW,
    "<=": cloudwatch.ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD,
}


class Alarms(Construct):
    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        queues: Mapping[str, StageQueues],
        undelivered: Mapping[str, sqs.IQueue],
    ) -> None:
        """`queues` by stage; `undelivered`, EventBridge's dead-letter queues, by what uses them."""
        super().__init__(scope, id_)
        namespace, stages = settings.stack_name, settings.stages
        self.topic = _topic(self, settings.kms_key)
        for address in settings.alarm_emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(address))
        self.all: list[cloudwatch.Alarm] = []
        for stage in stages:
            self._watch_stage(namespace, stage, queues[stage.name])
        for what, queue in undelivered.items():
            self._add(
                f"{pascal(what)}Undelivered",
                f"EventBridge could not deliver an event ({what})",
                "undelivered-events",
                _visible(queue),
                threshold=1,
                missing=SILENCE_IS_GOOD,
            )
        self._add(
            "SweeperStopped",
            "No sweep for half an hour: what a crash leaves is not repaired, "
            "and other alarms keep their state",
            "sweeper-stopped",
            of_sweeper(namespace, SweeperMetric.SWEEPS, "Sum"),
            threshold=1,
            comparison=BELOW,
            missing=SILENCE_IS_BAD,
            # Every period must lack a sweep: one may be late, and its metric too.
            of_periods=PERIODS,
        )
        self._add(
            "Owed",
            "A job ended more than an hour ago, and its publication, its follow-ons, its dead "
            "letter, its event or its delete is still owed",
            "owed-for-too-long",
            of_sweeper(namespace, SweeperMetric.OLDEST_OWED, "Maximum"),
            threshold=OWED_S,
            missing=SILENCE_SAYS_NOTHING,
        )
        self._add(
            "UnreadableRows",
            "Rows of unfinished jobs cannot be read: a newer version wrote them before a rollback",
            "unreadable-rows",
            of_sweeper(namespace, SweeperMetric.UNREADABLE_ROWS, "Maximum"),
            threshold=1,
            missing=SILENCE_SAYS_NOTHING,
        )

    def _watch_stage(self, namespace: str, stage: StageDeployment, queues: StageQueues) -> None:
        name = pascal(stage.name)
        self._add(
            f"{name}DeadLetters",
            f"Dead letters of {stage.name}: the attribute `longhaul` of each says why",
            "dead-letters",
            # Messages in the queue, not messages sent: SQS does not count redrives as sent.
            _visible(queues.dead_letters),
            threshold=1,
            missing=SILENCE_IS_GOOD,
        )
        self._add(
            f"{name}WithoutBeat",
            f"A job of {stage.name} runs, and its lease is not extended",
            "lease-without-a-beat",
            of_stage(namespace, StageMetric.WITHOUT_BEAT, stage.name, "Maximum"),
            threshold=1,
            missing=SILENCE_SAYS_NOTHING,
            # The sweep that finds one repairs it if it can. People are needed if the next sweep
            # still finds one.
            of_periods=2,
        )
        # What waits in a retired stage waits on purpose.
        if not stage.advanced.retired:
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
                # Not SQS's ApproximateAgeOfOldestMessage: it omits messages received three times,
                # such as those that wait for a slot, and counts those of running jobs.
                of_stage(namespace, StageMetric.OLDEST_WAITING, stage.name, "Maximum"),
                threshold=stage.advanced.max_wait_s,
                missing=SILENCE_SAYS_NOTHING,
            )
            self._add(
                f"{name}Refused",
                f"AWS goes on refusing tasks of {stage.name}, and not for lack of room: a right, a "
                "name or a subnet is wrong",
                "refused-tasks",
                of_stage(namespace, StageMetric.OLDEST_REFUSED, stage.name, "Maximum"),
                threshold=REFUSED_S,
                # Sweeps that find no such job report none.
                missing=SILENCE_IS_GOOD,
            )
            self._add(
                f"{name}Wasted",
                f"Of the attempts of {stage.name} that ended in a day, more than half of the work "
                "was wasted, by an hour or more",
                "wasted-work",
                of_stage(namespace, StageMetric.WASTED, stage.name, "Sum").with_(period=DAY),
                threshold=WASTED_S,
                missing=SILENCE_IS_GOOD,
            )
        if stage.advanced.notify is not None:
            self._add(
                f"{name}NoticesLost",
                f"The `notify` of {stage.name} did not take events about jobs that have ended",
                "lost-notices",
                of_stage(namespace, NoticeMetric.LOST, stage.name, "Sum"),
                threshold=1,
                missing=SILENCE_IS_GOOD,
            )
        self._add(
            f"{name}NearRetention",
            f"A message of {stage.name} was not renewed in time, or comes so rarely that it may "
            "not be: SQS drops it within a week of that",
            "near-retention",
            of_stage(namespace, StageMetric.NEAR_RETENTION, stage.name, "Maximum"),
            threshold=1,
            missing=SILENCE_SAYS_NOTHING,
        )
        self._add(
            f"{name}NeverReceived",
            f"SQS will drop a message of {stage.name} within a week, received less than three "
            "times",
            "near-retention",
            # SQS's own metric: a message that was never received has no row for the sweeper.
            queues.jobs.metric_approximate_age_of_oldest_message(
                period=PERIOD, statistic="Maximum"
            ),
            threshold=NEAR_RETENTION_S,
            missing=SILENCE_IS_GOOD,
        )

        for expression in stage.advanced.alarms:
            self._watch_jobs(namespace, stage, expression)

    def _watch_jobs(self, namespace: str, stage: StageDeployment, expression: str) -> None:
        """An alarm of the settings: one value that compares so is enough."""
        job, metric, comparison, threshold = watched(expression)
        # Named by what it says: another place in the list must not replace the alarm.
        digest = sha256(expression.encode()).hexdigest()[:8]
        self._add(
            f"{pascal(stage.name)}Jobs{digest}",
            f"What a job of {stage.name} has measured: {expression}",
            "what-jobs-measure",
            of_job(
                namespace, metric, stage.name, job, "Maximum" if ">" in comparison else "Minimum"
            ),
            threshold=threshold,
            comparison=_COMPARISONS[comparison],
            # A value comes when a job succeeds.
            missing=SILENCE_IS_GOOD,
        )

    def _add(
        self,
        id_: str,
        text: str,
        anchor: str,
        metric: cloudwatch.Metric,
        *,
        threshold: float,
        missing: cloudwatch.TreatMissingData,
        comparison: cloudwatch.ComparisonOperator = AT_LEAST,
        of_periods: int = 1,
    ) -> None:
        period_s = metric.period.to_seconds()
        alarm = cloudwatch.Alarm(
            self,
            id_,
            alarm_description=f"{text}. What to do: {DOCS}#{anchor}",
            metric=metric,
            threshold=threshold,
            comparison_operator=comparison,
            # Half an hour, or one period that is longer.
            evaluation_periods=max(1, int(PERIODS * PERIOD.to_seconds() / period_s)),
            datapoints_to_alarm=of_periods,
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        self.all.append(alarm)


def _visible(queue: sqs.IQueue) -> cloudwatch.Metric:
    return queue.metric_approximate_number_of_messages_visible(period=PERIOD, statistic="Maximum")


def _topic(scope: Construct, key: str | None) -> sns.Topic:
    topic = sns.Topic(
        scope,
        "Topic",
        display_name="Longhaul's alarms",
        enforce_ssl=True,
        # Without a customer's key it is not encrypted: CloudWatch cannot publish under AWS's own
        # (alias/aws/sns), whose policy no one can change.
        master_key=kms.Key.from_key_arn(scope, "Key", key) if key else None,
    )
    # Enforcing TLS replaces the default policy, under which the account's CloudWatch could publish.
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
