"""Nothing scales in on a metric: no part reads metrics, and an alarm only notifies people."""

from typing import Final

from tests.cdk.synthesis import Synthesis, as_list

# Actions that could end a running task, or remove what it needs.
ENDS_WORK: Final = {
    "ecs:StopTask",
    "ecs:UpdateService",
    "ecs:DeleteService",
    "ecs:DeleteCluster",
    "ecs:DeregisterTaskDefinition",
    "states:StopExecution",
    "lambda:PutFunctionConcurrency",
    "lambda:UpdateEventSourceMapping",
    "sqs:PurgeQueue",
}


def holders(synthesis: Synthesis, actions: set[str]) -> dict[str, set[str]]:
    """Action → the roles that may do it."""
    found: dict[str, set[str]] = {}
    for policy in synthesis.resources("AWS::IAM::Policy").values():
        for statement in policy["PolicyDocument"]["Statement"]:
            for action in actions & set(as_list(statement["Action"])):
                found.setdefault(action, set()).update(policy["Roles"])
    return found


def test_no_role_may_read_a_metric_or_an_alarm(varied: Synthesis) -> None:
    actions = {
        action
        for policy in varied.resources("AWS::IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        for action in as_list(statement["Action"])
    }

    assert not [
        action
        for action in actions
        if action.startswith(("cloudwatch:", "application-autoscaling:"))
    ]


def test_an_alarm_reaches_only_a_topic_whose_subscribers_are_people(varied: Synthesis) -> None:
    reached = {
        action
        for alarm in varied.resources("AWS::CloudWatch::Alarm").values()
        for what in ("AlarmActions", "OKActions", "InsufficientDataActions")
        for action in alarm.get(what, ())
    }

    assert reached == {"<AlarmsTopic>"}
    subscriptions = varied.resources("AWS::SNS::Subscription").values()
    assert {subscription["Protocol"] for subscription in subscriptions} == {"email"}
    # EventBridge reports an alarm's change of state too: no rule matches it.
    sources = [
        rule.get("EventPattern", {}).get("source")
        for rule in varied.resources("AWS::Events::Rule").values()
    ]
    assert [source for source in sources if source] == [["aws.states"], ["aws.s3"]]


def test_only_parts_that_decide_by_the_lease_may_stop_a_task(varied: Synthesis) -> None:
    # The machine stops the task of its own execution; the others that of an attempt that is settled
    # or holds no lease (the sweeper's orphans).
    assert holders(varied, ENDS_WORK) == {
        "ecs:StopTask": {"<WorkflowRole>", "<DispatcherRole>", "<SettleRole>", "<SweeperRole>"}
    }
