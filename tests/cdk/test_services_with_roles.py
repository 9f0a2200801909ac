"""What AWS's services do with the roles by themselves, judged by the engine that judges calls.

No request of ours makes these calls, so no test that runs the stack sees them. Each stands here
with the page that asks for the right.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from longhaul.cli.local.aws import roles_judge
from longhaul.local.iam.judge import Access, Judge, Policies

SNAPSHOT = Path(__file__).parent / "snapshots" / "Longhaul.template.json"
ACCOUNT, REGION = "123456789012", "eu-central-1"
HERE = f"{REGION}:{ACCOUNT}"
DOCS = "https://docs.aws.amazon.com"
ARNS = {
    "AWS::SQS::Queue": f"arn:aws:sqs:{HERE}:{{}}",
    "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{HERE}:table/{{}}",
    "AWS::S3::Bucket": "arn:aws:s3:::{}",
    "AWS::Lambda::Function": f"arn:aws:lambda:{HERE}:function:{{}}",
    "AWS::IAM::Role": f"arn:aws:iam::{ACCOUNT}:role/{{}}",
    "AWS::StepFunctions::StateMachine": f"arn:aws:states:{HERE}:stateMachine:{{}}",
    "AWS::Logs::LogGroup": f"arn:aws:logs:{HERE}:log-group:{{}}:*",
    "AWS::Events::Rule": f"arn:aws:events:{HERE}:rule/{{}}",
    "AWS::SNS::Topic": f"arn:aws:sns:{HERE}:{{}}",
    "AWS::ECS::Cluster": f"arn:aws:ecs:{HERE}:cluster/{{}}",
}
IS_AN_ARN = {"AWS::SNS::Topic", "AWS::StepFunctions::StateMachine"}
PSEUDO = {"AWS::AccountId": ACCOUNT, "AWS::Region": REGION, "AWS::Partition": "aws"}


class Template:
    def __init__(self, file: Path) -> None:
        self.resources: dict[str, Any] = json.loads(file.read_text())["Resources"]

    def arn(self, name: str) -> str:
        """Of the resource whose readable id that is."""
        (found,) = (each for each in self.resources if re.fullmatch(f"{name}[0-9A-F]{{8}}", each))
        return self._arn(found)

    def resolved(self, value: Any) -> Any:
        match value:
            case {"Ref": name}:
                is_arn = name in self.resources and self.resources[name]["Type"] in IS_AN_ARN
                return PSEUDO.get(name) or (self._arn(name) if is_arn else name.lower())
            case {"Fn::GetAtt": [name, "Arn"]}:
                return self._arn(name)
            case {"Fn::GetAtt": [name, _]}:
                return name.lower()
            case {"Fn::Join": [separator, parts]}:
                return separator.join(self.resolved(part) for part in parts)
            case {"Fn::Sub": str(text)}:
                return re.sub(r"\$\{([\w:]+)\}", lambda found: PSEUDO[found[1]], text)
            case dict():
                return {key: self.resolved(each) for key, each in value.items()}
            case list():
                return [self.resolved(each) for each in value]
        return value

    def of_role(self, arn: str) -> tuple[str, ...]:
        return tuple(
            json.dumps(self.resolved(each["Properties"]["PolicyDocument"]))
            for each in self.resources.values()
            if each["Type"] == "AWS::IAM::Policy"
            and any(self._arn(role["Ref"]) == arn for role in each["Properties"]["Roles"])
        )

    def of_resource(self, arn: str) -> str | None:
        """The policy of a queue, topic or function, or the trust policy of a role."""
        statements = []
        for name, each in self.resources.items():
            properties = each["Properties"]
            if each["Type"] == "AWS::IAM::Role" and self._arn(name) == arn:
                statements += properties["AssumeRolePolicyDocument"]["Statement"]
            if each["Type"] in {"AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy"}:
                named = properties.get("Queues") or properties["Topics"]
                if arn in (self._arn(one["Ref"]) for one in named):
                    statements += properties["PolicyDocument"]["Statement"]
            if (
                each["Type"] == "AWS::Lambda::Permission"
                and self.resolved(properties["FunctionName"]) == arn
            ):
                statements.append(
                    {
                        "Effect": "Allow",
                        "Principal": {"Service": properties["Principal"]},
                        "Action": properties["Action"],
                        "Resource": arn,
                        "Condition": {"ArnLike": {"aws:SourceArn": properties["SourceArn"]}},
                    }
                )
        document = {"Version": "2012-10-17", "Statement": self.resolved(statements)}
        return json.dumps(document) if statements else None

    def _arn(self, name: str) -> str:
        return ARNS[self.resources[name]["Type"]].format(name.lower())


TEMPLATE = Template(SNAPSHOT)


def of(name: str) -> str:
    return TEMPLATE.arn(name)


@dataclass(frozen=True)
class Use:
    """What a service does: as a role, or by its own name where a resource lets it."""

    who: str
    actions: tuple[str, ...]
    resource: str
    page: str
    context: dict[str, str] = field(default_factory=dict)


IMAGES = f"arn:aws:ecr:{HERE}:repository/cdk-hnb659fds-container-assets-{ACCOUNT}-{REGION}"
PULL = f"{DOCS}/AmazonECS/latest/developerguide/task_execution_IAM_role.html"
SYNC = f"{DOCS}/step-functions/latest/dg/connect-ecs.html"
LAMBDA_LOGS = f"{DOCS}/lambda/latest/dg/monitoring-cloudwatchlogs.html"
LOG_CALLS = ("logs:CreateLogStream", "logs:PutLogEvents")
TRACES = ("xray:PutTraceSegments", "xray:PutTelemetryRecords")


def stream(group: str) -> str:
    return of(group).removesuffix(":*") + ":log-stream:one"


USES = [
    Use(of("SparkExecutionRole"), ("ecr:GetAuthorizationToken",), "*", PULL),
    Use(
        of("SparkExecutionRole"),
        ("ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"),
        IMAGES,
        PULL,
    ),
    Use(of("SparkExecutionRole"), LOG_CALLS, stream("SparkLogs"), PULL),
    Use(
        of("WorkflowRole"),
        ("events:PutTargets", "events:PutRule", "events:DescribeRule"),
        f"arn:aws:events:{HERE}:rule/StepFunctionsGetEventsForECSTaskRule",
        SYNC,
    ),
    Use(
        of("WorkflowRole"),
        (
            *("logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery"),
            *("logs:DeleteLogDelivery", "logs:ListLogDeliveries", "logs:PutResourcePolicy"),
            *("logs:DescribeResourcePolicies", "logs:DescribeLogGroups"),
        ),
        "*",
        f"{DOCS}/step-functions/latest/dg/cw-logs.html",
    ),
    Use(
        of("WorkflowRole"),
        (*TRACES, "xray:GetSamplingRules", "xray:GetSamplingTargets"),
        "*",
        f"{DOCS}/step-functions/latest/dg/concepts-xray-tracing.html",
    ),
    Use(
        of("DispatcherRole"),
        ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
        of("MainQueueJobs"),
        f"{DOCS}/lambda/latest/dg/services-sqs-configure.html",
    ),
    *(
        Use(of(f"{name}Role"), LOG_CALLS, stream(f"{name}Logs"), LAMBDA_LOGS)
        for name in ("Dispatcher", "Heartbeat", "Settle", "Sweeper")
    ),
    *(
        Use(of(f"{name}Role"), TRACES, "*", f"{DOCS}/lambda/latest/dg/services-xray.html")
        for name in ("Dispatcher", "Heartbeat", "Settle", "Sweeper")
    ),
    *(
        Use(
            of("SchedulingMainRole"),
            ("sqs:SendMessage",),
            of(queue),
            f"{DOCS}/scheduler/latest/UserGuide/{page}.html",
        )
        for queue, page in (
            ("MainQueueJobs", "setting-up"),
            ("SchedulingUndelivered", "configuring-schedule-dlq"),
        )
    ),
    *(
        Use(
            "events.amazonaws.com",
            (action,),
            of(resource),
            f"{DOCS}/eventbridge/latest/userguide/eb-use-resource-based.html",
            {"aws:SourceArn": of(rule)},
        )
        for rule in ("SweepingExecutionEnded", "SweepingEveryFewMinutes")
        for action, resource in (
            ("lambda:InvokeFunction", "Sweeper"),
            ("sqs:SendMessage", "SweepingUndelivered"),
        )
    ),
    Use(
        "cloudwatch.amazonaws.com",
        ("sns:Publish",),
        of("AlarmsTopic"),
        f"{DOCS}/AmazonCloudWatch/latest/monitoring/Notify_Users_Alarm_Changes.html",
        {"aws:SourceAccount": ACCOUNT},
    ),
    *(
        Use(
            service,
            ("sts:AssumeRole",),
            of(role),
            f"{DOCS}/IAM/latest/UserGuide/id_roles_create_for-service.html",
            {"aws:SourceAccount": ACCOUNT},
        )
        for role, service in (
            ("SparkTaskRole", "ecs-tasks.amazonaws.com"),
            ("SparkExecutionRole", "ecs-tasks.amazonaws.com"),
            ("WorkflowRole", "states.amazonaws.com"),
            ("SchedulingMainRole", "scheduler.amazonaws.com"),
            *((f"{n}Role", "lambda.amazonaws.com") for n in ("Dispatcher", "Heartbeat")),
            *((f"{n}Role", "lambda.amazonaws.com") for n in ("Settle", "Sweeper")),
        )
    ),
]


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    judge = Judge(roles_judge())
    yield judge
    judge.close()


def allowed(judge: Judge, use: Use, action: str) -> bool:
    who, policies = use.who, Policies(resource=TEMPLATE.of_resource(use.resource))
    if who.startswith("arn:"):
        policies = Policies(TEMPLATE.of_role(who), resource=policies.resource)
        who = f"arn:aws:sts::{ACCOUNT}:assumed-role/{who.rpartition('/')[2]}/service"
    context = {"aws:SecureTransport": "true", **use.context}
    return judge.decide(who, ACCOUNT, Access(action, use.resource, context), policies).allowed


@pytest.mark.parametrize(
    "use", USES, ids=lambda use: f"{use.who.rpartition('/')[2]}-{use.actions[0]}"
)
def test_a_service_may_do_what_its_page_says_that_it_does(judge: Judge, use: Use) -> None:
    assert [action for action in use.actions if not allowed(judge, use, action)] == []


def test_a_service_may_not_do_it_for_another_account_or_rule(judge: Judge) -> None:
    foreign = {"aws:SourceAccount": "999999999999", "aws:SourceArn": "arn:aws:events:::rule/x"}
    bound = [
        use
        for use in USES
        if use.context and use.who != "lambda.amazonaws.com"  # whose trust names none
    ]
    assert len(bound) == 9
    for use in bound:
        for action in use.actions:
            stranger = Use(use.who, use.actions, use.resource, use.page, foreign)
            assert not allowed(judge, stranger, action), use
