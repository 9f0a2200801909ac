"""Rights that no recorded call needs, and why they stay: see `test_needed_statements`."""

from typing import Final

Right = tuple[str, str, str]
"""The role or resource that has the policy, the statement, the action."""

FINISHERS: Final = ("DispatcherRole", "SettleRole", "SweeperRole")
JOBS: Final = ("SparkTaskRole", "LambdaJobRole", "EmrServerlessJobRole")


def rights(owners: tuple[str, ...], statement: str, *actions: str) -> list[Right]:
    return [(owner, statement, action) for owner in owners for action in actions]


OF_A_TRIGGER: Final = rights(
    ("MainQueueJobs",), "sqs:GetQueueAttributes", "sqs:GetQueueAttributes", "sqs:GetQueueUrl"
)
# The end-to-end tests' stacks have no schedule: `tests/handlers/test_missed_firings.py` calls it.
OF_CATCHING_UP: Final = rights(("SweeperRole",), "ReadSchedules", "scheduler:GetSchedule")
IN_THE_DATA_BUCKET: Final = rights(JOBS, "ReadCode", "s3:GetObject")
KEPT: Final[dict[str, list[Right]]] = {
    (
        "Two statements allow it: one is for the mapping, which deletes what the dispatcher "
        "has handled, and one for the dispatcher itself."
    ): [
        *rights(("DispatcherRole",), "FinishMessages", "sqs:DeleteMessage"),
        *rights(("DispatcherRole",), "ReceiveJobs", "sqs:DeleteMessage"),
    ],
    (
        "Dispatcher, settle and sweeper can each finish what a crash of another has left. "
        "The record has not each crash at each place; the simulation has, and "
        "`tests/cdk/test_grants.py` finds the call in the code."
    ): [
        *rights(("DispatcherRole", "SweeperRole"), "CancelJobRuns", "emr-serverless:CancelJobRun"),
        *rights(
            ("DispatcherRole", "SweeperRole"), "DescribeExecutions", "states:DescribeExecution"
        ),
        *rights(("DispatcherRole",), "FindJobRuns", "emr-serverless:ListJobRuns"),
        *rights(("DispatcherRole",), "FinishMessages", "sqs:SendMessage"),
        *rights(
            ("DispatcherRole", "SweeperRole"),
            "JoinLeases",
            "dynamodb:ConditionCheckItem",
            "dynamodb:Query",
        ),
        *rights(("DispatcherRole",), "ListOutputs", "s3:ListBucket"),
        *rights(("SweeperRole",), "NotifyEvents", "events:PutEvents"),
        *rights(("DispatcherRole",), "WriteObjects", "s3:AbortMultipartUpload", "s3:DeleteObject"),
        *rights(
            FINISHERS,
            "WriteTables",
            "glue:CreateTable",
            "glue:GetDatabase",
            "glue:GetTable",
            "glue:UpdateTable",
        ),
        *rights(("SweeperRole",), "DeadLetter", "sqs:SendMessage"),
        *rights(("SettleRole",), "WriteObjects", "s3:AbortMultipartUpload"),
        *rights(("SweeperRole",), "FinishMessages", "sqs:DeleteMessage", "sqs:SendMessage"),
        *rights(("SweeperRole",), "StartExecutions", "states:StartExecution"),
        *rights(("SweeperRole",), "WriteObjects", "s3:AbortMultipartUpload", "s3:PutObject"),
    ],
    (
        "In the recorded stack code is in the data bucket, which another statement opens. "
        "Where it is in another bucket, a test shows the need."
    ): [
        *IN_THE_DATA_BUCKET,
    ],
    (
        "The recorded jobs of this engine do not need it, and other jobs do: the code is the "
        "same on each engine."
    ): [
        *rights(
            ("EmrServerlessJobRole",),
            "WriteObjects",
            "s3:AbortMultipartUpload",
            "s3:DeleteObject",
        ),
        *rights(("LambdaJobRole",), "WriteObjects", "s3:AbortMultipartUpload", "s3:DeleteObject"),
        *rights(("SparkTaskRole",), "WriteObjects", "s3:AbortMultipartUpload"),
    ],
    (
        "EMR's page asks for it on the account's log groups. AWS's reference names no "
        "resource for it, so the judge refuses the question."
    ): [
        *rights(("EmrServerlessJobRole",), "FindItsLog", "logs:DescribeLogGroups"),
    ],
    ("CDK grants it with the right to send."): [
        *OF_A_TRIGGER,
    ],
}
