"""Who may do what, compared whole: a right too many fails as one that is missing does."""

from typing import Final

import pytest

from tests.infra.synthesis import Synthesis, as_list

ARN: Final = "arn:<AWS::Partition>:{service}:<AWS::Region>:<AWS::AccountId>:{resource}"
TABLE: Final = {"<LeasesTable.Arn>"}
JOBS: Final = {"<MainQueueJobs.Arn>"}
DEAD_LETTERS: Final = {"<MainQueueDeadLetters.Arn>"}
OBJECTS: Final = {"<Data.Arn>/*"}
BUCKET: Final = {"<Data.Arn>"}
TASKS: Final = {ARN.format(service="ecs", resource="task/<SparkCluster>/*")}
MACHINE: Final = {"<WorkflowMachine>"}
EXECUTIONS: Final = {ARN.format(service="states", resource="execution:<WorkflowMachine.Name>:*")}

TRACES: Final = {"xray:PutTelemetryRecords": {"*"}, "xray:PutTraceSegments": {"*"}}
HOLDS_LEASES: Final = {
    f"dynamodb:{action}": TABLE
    for action in ("GetItem", "BatchGetItem", "PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem")
}
WRITES_OBJECTS: Final = {
    **{
        f"s3:{action}": OBJECTS
        for action in ("GetObject", "PutObject", "DeleteObject", "AbortMultipartUpload", "ListMultipartUploadParts")
    },
    "s3:ListBucket": BUCKET,
}
FINISHES: Final = {
    **TRACES,
    **HOLDS_LEASES,
    "dynamodb:Query": TABLE,
    **WRITES_OBJECTS,
    "sqs:ChangeMessageVisibility": JOBS,
    "sqs:DeleteMessage": JOBS,
    "sqs:SendMessage": JOBS | DEAD_LETTERS,
    "ecs:StopTask": TASKS,
}
STARTS: Final = {"states:StartExecution": MACHINE, "states:DescribeExecution": EXECUTIONS}


def _logs(role: str) -> dict[str, set[str]]:
    return {f"logs:{action}": {f"<{role}Logs.Arn>"} for action in ("CreateLogStream", "PutLogEvents")}


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (
            "HeartbeatRole",
            {
                **_logs("Heartbeat"),
                **TRACES,
                "dynamodb:GetItem": TABLE,
                "dynamodb:UpdateItem": TABLE,
                "sqs:ChangeMessageVisibility": JOBS,
            },
        ),
        ("SettleRole", {**_logs("Settle"), **FINISHES}),
        (
            "SweeperRole",
            {
                **_logs("Sweeper"),
                **FINISHES,
                **STARTS,
                "dynamodb:Query": TABLE | {"<LeasesTable.Arn>/index/open"},
                "sqs:GetQueueAttributes": JOBS,
                "ecs:ListTasks": {"*"},
                "ecs:DescribeTasks": TASKS,
            },
        ),
        (
            "DispatcherRole",
            {
                **_logs("Dispatcher"),
                **FINISHES,
                **STARTS,
                "sqs:ReceiveMessage": JOBS,
                "sqs:GetQueueAttributes": JOBS,
            },
        ),
        ("SparkTaskRole", {**HOLDS_LEASES, **WRITES_OBJECTS}),
    ],
)
def test_a_part_may_do_exactly_what_its_work_takes(usual: Synthesis, role: str, expected: dict[str, set[str]]) -> None:
    assert usual.grants(role) == expected


def test_a_job_reads_the_input_buckets_and_writes_the_output_buckets_of_the_settings(varied: Synthesis) -> None:
    granted = varied.grants("SparkTaskRole")

    bucket = "arn:aws:s3:::their-{}".format
    assert granted["s3:GetObject"] == {
        "<Data.Arn>/*",
        bucket("input") + "/*",
        bucket("output") + "/*",
        bucket("code") + "/production/*",
        "arn:aws:s3:::<Data>/jobs/*",
    }
    assert granted["s3:PutObject"] == {"<Data.Arn>/*", bucket("output") + "/*"}
    assert granted["s3:ListBucket"] == {"<Data.Arn>", bucket("input"), bucket("output")}


def test_functions_may_publish_to_the_output_buckets_but_not_read_the_inputs(varied: Synthesis) -> None:
    assert varied.grants("SettleRole")["s3:GetObject"] == {"<Data.Arn>/*", "arn:aws:s3:::their-output/*"}


def test_the_machine_runs_only_our_families_in_our_cluster(usual: Synthesis) -> None:
    (statement,) = (each for each in usual.statements("WorkflowRole") if "ecs:RunTask" in as_list(each["Action"]))

    assert statement["Resource"] == [
        ARN.format(service="ecs", resource=f"task-definition/Longhaul-{size}:*")
        for size in ("large", "medium", "small", "xlarge")
    ]
    assert statement["Condition"] == {"ArnEquals": {"ecs:cluster": "<SparkCluster.Arn>"}}


def test_the_machine_lends_the_tasks_roles_to_ecs_alone(usual: Synthesis) -> None:
    (statement,) = (each for each in usual.statements("WorkflowRole") if "iam:PassRole" in as_list(each["Action"]))

    assert set(statement["Resource"]) == {"<SparkTaskRole.Arn>", "<SparkExecutionRole.Arn>"}
    assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}}


def test_the_machine_follows_its_tasks_and_calls_two_functions(usual: Synthesis) -> None:
    granted = usual.grants("WorkflowRole")

    assert granted["ecs:StopTask"] == granted["ecs:DescribeTasks"] == TASKS
    assert granted["lambda:InvokeFunction"] == {"<Heartbeat.Arn>", "<Settle.Arn>"}
    rule = {ARN.format(service="events", resource="rule/StepFunctionsGetEventsForECSTaskRule")}
    assert granted["events:PutRule"] == granted["events:PutTargets"] == granted["events:DescribeRule"] == rule


def test_no_policy_names_a_wildcard_action(varied: Synthesis) -> None:
    actions = {
        action
        for policy in varied.resources("AWS::IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        for action in as_list(statement["Action"])
    }

    assert not [action for action in actions if "*" in action]


def test_only_actions_that_know_no_resource_are_granted_on_all(usual: Synthesis) -> None:
    on_all = {
        action
        for policy in usual.resources("AWS::IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Resource"] == "*"
        for action in as_list(statement["Action"])
    }

    assert {action.partition(":")[0] for action in on_all} == {"ecr", "ecs", "logs", "xray"}
    assert {action for action in on_all if action.startswith("ecs:")} == {
        "ecs:ListTasks"
    }  # the condition names the cluster
    assert {action for action in on_all if action.startswith("ecr:")} == {"ecr:GetAuthorizationToken"}
    assert not {"logs:PutLogEvents", "logs:CreateLogStream"} & on_all


def test_no_role_has_a_managed_policy(usual: Synthesis) -> None:
    assert not [role for role in usual.resources("AWS::IAM::Role").values() if role.get("ManagedPolicyArns")]
