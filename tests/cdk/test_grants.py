"""The rights of each role, compared whole: one right too many fails, as does a missing one."""

from typing import Final

import pytest

from tests.cdk.conftest import NOTIFIED, VARIED
from tests.cdk.synthesis import Synthesis, as_list, readable, synthesize
from tests.synthesized import once

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
    f"dynamodb:{action}": TABLE for action in ("GetItem", "PutItem", "UpdateItem")
}
WRITES_OBJECTS: Final = {
    **{
        f"s3:{action}": OBJECTS
        for action in (
            "GetObject",
            "PutObject",
            "DeleteObject",
            "AbortMultipartUpload",
        )
    },
    "s3:ListBucket": BUCKET,
}
WRITES_TABLES: Final = {
    f"glue:{action}": {
        ARN.format(service="glue", resource=resource)
        for resource in ("catalog", "database/longhaul", "table/longhaul/*")
    }
    for action in ("GetDatabase", "GetTable", "CreateTable", "UpdateTable")
}
FINISHES: Final = {
    **TRACES,
    **HOLDS_LEASES,
    "dynamodb:BatchGetItem": TABLE,
    "dynamodb:ConditionCheckItem": TABLE,
    "dynamodb:Query": TABLE,
    **WRITES_OBJECTS,
    **WRITES_TABLES,
    "sqs:ChangeMessageVisibility": JOBS,
    "sqs:DeleteMessage": JOBS,
    "sqs:SendMessage": JOBS | DEAD_LETTERS,
    "ecs:StopTask": TASKS,
    "ecs:DescribeTasks": TASKS,
}
STARTS: Final = {
    "states:StartExecution": MACHINE,
    "states:DescribeExecution": EXECUTIONS,
}


@pytest.fixture(scope="module")
def with_keys(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """The varied stack, whose buckets have customer keys, with both engines."""
    return Synthesis(
        once(
            tmp_path_factory,
            "with-keys",
            lambda folder: synthesize(
                folder, {**VARIED, "emr_serverless": {"max_vcpu": 64}, "sizes": {}}
            ),
        )
    )


def _logs(role: str) -> dict[str, set[str]]:
    return {
        f"logs:{action}": {f"<{role}Logs.Arn>"} for action in ("CreateLogStream", "PutLogEvents")
    }


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
                "dynamodb:ConditionCheckItem": TABLE,
                "dynamodb:Query": TABLE | {"<LeasesTable.Arn>/index/open"},
                "sqs:GetQueueAttributes": JOBS,
                "ecs:ListTasks": {"*"},
            },
        ),
        (
            "DispatcherRole",
            {
                **_logs("Dispatcher"),
                **FINISHES,
                **STARTS,
                "dynamodb:ConditionCheckItem": TABLE,
                "dynamodb:Query": TABLE | {"<LeasesTable.Arn>/index/open"},
                "sqs:ReceiveMessage": JOBS,
                "sqs:GetQueueAttributes": JOBS,
            },
        ),
        ("SparkTaskRole", {"dynamodb:UpdateItem": TABLE, **WRITES_OBJECTS, **WRITES_TABLES}),
    ],
)
def test_a_role_has_exactly_the_rights_that_its_work_needs(
    usual: Synthesis, role: str, expected: dict[str, set[str]]
) -> None:
    assert usual.grants(role) == expected


@pytest.mark.parametrize("role", ["DispatcherRole", "SettleRole", "SweeperRole"])
def test_what_finishes_jobs_may_tell_the_targets_of_the_settings_and_no_others(
    with_all: Synthesis, role: str
) -> None:
    granted = with_all.grants(role)

    assert granted["sns:Publish"] == {NOTIFIED["topic"]}
    assert granted["events:PutEvents"] == {NOTIFIED["bus"]}
    others = granted["sqs:SendMessage"] - {NOTIFIED["main"]}
    assert NOTIFIED["main"] in granted["sqs:SendMessage"]
    assert all(each.startswith("<") for each in others)  # queues of the stack


ASKED: Final = {f"arn:aws:s3:::<Data>/longhaul/{name}/*" for name in ("requests", "joined")}


@pytest.mark.parametrize("role", ["DispatcherRole", "SettleRole", "SweeperRole"])
def test_no_function_may_write_code_or_delete_requests(varied: Synthesis, role: str) -> None:
    code = {"arn:aws:s3:::their-code/production/*", "arn:aws:s3:::<Data>/jobs/*"}
    assert varied.denials(role) == {
        "s3:PutObject*": code,
        "s3:DeleteObject*": code | ASKED,
        "s3:AbortMultipartUpload": code,
    }


ANY_KEY: Final = "arn:aws:kms:eu-central-1:*:key/*"
"""Of the bootstrap, with which a driver's code may be encrypted: `test_emr_serverless` has more."""


@pytest.mark.parametrize("role", ["SparkTaskRole", "EmrServerlessJobRole"])
def test_a_job_may_decrypt_what_it_reads_and_encrypt_what_it_writes(
    with_keys: Synthesis, role: str
) -> None:
    granted = with_keys.grants(role)

    key = "arn:aws:kms:{}:key/{}".format
    out = key("eu-central-1:123456789012", "out")
    assert granted["kms:GenerateDataKey"] == {out}
    assert granted["kms:Decrypt"] - {ANY_KEY} == {
        out,
        key("eu-central-1:210987654321", "in"),
        key("eu-west-1:123456789012", "mrk-code"),
    }


def test_keys_are_used_through_s3_of_their_region_alone(with_keys: Synthesis) -> None:
    used = [
        (resource.split(":")[3], statement["Condition"])
        for policy in with_keys.resources("AWS::IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if any(action.startswith("kms:") for action in as_list(statement["Action"]))
        for resource in as_list(statement["Resource"])
        if resource != ANY_KEY
    ]

    # Three functions with one key, and on two engines a stage with three keys and one with the one
    # of its inputs.
    assert len(used) == 3 + 2 * (3 + 1)
    for region, condition in used:
        assert condition == {"StringEquals": {"kms:ViaService": f"s3.{region}.amazonaws.com"}}


def test_services_use_a_role_for_this_account_alone(with_keys: Synthesis) -> None:
    conditions = {
        readable(statement["Principal"]["Service"]).split(".")[0]: statement.get("Condition", {})
        for role in with_keys.resources("AWS::IAM::Role").values()
        for statement in role["AssumeRolePolicyDocument"]["Statement"]
    }

    # AWS documents the condition for all services but Lambda (`longhaul.cdk.functions`).
    assert conditions.pop("lambda") == {}
    assert set(conditions) == {"ecs-tasks", "emr-serverless", "scheduler", "states"}
    for condition in conditions.values():
        (account,) = condition["StringEquals"].values()
        assert condition["StringEquals"] == {"aws:SourceAccount": account}
        assert account in ("123456789012", "<AWS::AccountId>")
