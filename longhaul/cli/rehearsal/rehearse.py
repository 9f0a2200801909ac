"""All questions of a rehearsal, and how each is asked."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from longhaul.cli.checks.deploying import Plan
from longhaul.cli.checks.finding import Finding
from longhaul.cli.errors import CommandError
from longhaul.cli.preflight import account_checks
from longhaul.cli.rehearsal import change_set, machine, patterns, policies, surroundings
from longhaul.cli.rehearsal.answer import Answer, Question, unasked
from longhaul.cli.rehearsal.template import Template
from longhaul.cli.sentences import is_denied, translated
from longhaul.cli.target import Target
from longhaul.domain.errors import LonghaulError
from longhaul.ports import Clock

# The calls of the checks that it shares with `longhaul preflight`.
PREFLIGHT: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "bootstrap": ("whether the CDK's bootstrap is there, and new enough", ("ssm:GetParameter",)),
    "roles": (
        "whether the permissions boundary of the settings is there",
        ("sts:GetCallerIdentity", "iam:GetPolicy"),
    ),
    "ecs": ("whether ECS has its service-linked role", ("iam:GetRole",)),
    "quotas": (
        "whether the Fargate vCPUs hold the slots",
        ("servicequotas:ListServiceQuotas", "lambda:GetAccountSettings"),
    ),
    "network": (
        "whether there is room for the stack's own network or a way to secrets in another's",
        (
            "cloudformation:DescribeStacks",
            "cloudformation:ListStackResources",
            "lambda:GetFunctionConfiguration",
            "servicequotas:ListServiceQuotas",
            "ec2:DescribeVpcs",
            "ec2:DescribeInternetGateways",
            "ec2:DescribeVpcEndpoints",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeRouteTables",
        ),
    ),
    "stages": (
        "whether queues would be lost, or are another's",
        (
            "cloudformation:DescribeStacks",
            "cloudformation:ListStackResources",
            "lambda:GetFunctionConfiguration",
            "sqs:GetQueueUrl",
            "sqs:GetQueueAttributes",
            "dynamodb:Query",
        ),
    ),
    "tables": (
        "whether Glue databases and tables are free, or there",
        ("glue:GetDatabase", "glue:GetTable"),
    ),
    "catalog": (
        "whether the Glue catalog has a key that the settings do not name",
        ("glue:GetDataCatalogEncryptionSettings", "kms:DescribeKey"),
    ),
    "lake": (
        "whether Lake Formation lets the deployment make its database, and roles use it",
        (
            "lakeformation:GetDataLakeSettings",
            "lakeformation:ListPermissions",
            "sts:GetCallerIdentity",
        ),
    ),
}


# What is asked of the template alone, and makes nothing.
_OF_THE_TEMPLATE: Final[
    Sequence[tuple[str, str, Sequence[str], Callable[[Target, Template], Iterator[Answer]]]]
] = (
    (
        "policies",
        "what IAM Access Analyzer finds in each policy",
        policies.VALIDATE,
        policies.validated,
    ),
    (
        "rights",
        "whether each role may do what its statements say, within its boundary",
        policies.SIMULATE,
        policies.simulated,
    ),
    (
        "definition",
        "whether Step Functions takes the state machine",
        machine.VALIDATE,
        machine.validated,
    ),
    (
        "states",
        "whether each state ends as it should, with mocks of what it calls",
        machine.TEST,
        machine.tested,
    ),
    ("events", "whether the rules match their events", patterns.TEST, patterns.tested),
)


@dataclass(frozen=True)
class Assembly:
    """A synthesized stack: its template, and the bucket of its assets."""

    template: Template
    bucket: str


def read(folder: Path, plan: Plan, identity: Mapping[str, Any]) -> Assembly:
    """The assembly in the folder, for the account of `identity`, STS's word on the caller."""
    stack = plan.settings.stack_name
    content = json.loads((folder / f"{stack}.template.json").read_text())
    assets = json.loads((folder / f"{stack}.assets.json").read_text())
    template = Template(
        content, stack, identity["Account"], plan.target.region, identity["Arn"].split(":")[1]
    )
    destinations = [
        each for asset in assets["files"].values() for each in asset["destinations"].values()
    ]
    bucket = destinations[0]["bucketName"]
    for pseudo in ("AccountId", "Region", "Partition"):
        bucket = bucket.replace(f"${{AWS::{pseudo}}}", template.value({"Ref": f"AWS::{pseudo}"}))
    return Assembly(template, bucket)


def questions(
    plan: Plan, assembly: Assembly, *, token: str, clock: Clock, warn: Callable[[str], None]
) -> Iterator[Question]:
    """In their order: what a deployment meets first comes first.

    `token`: what tells the names of this rehearsal from others. `warn`: gets a sentence about each
    thing that could not be removed.
    """
    target, template = plan.target, assembly.template
    for name, check in account_checks(plan):
        about, calls = PREFLIGHT[name]
        yield Question(name, about, calls, partial(_as_answers, about, check))
    yield from surroundings.questions(plan)
    for name, about, calls, ask in _OF_THE_TEMPLATE:
        yield Question(name, about, calls, partial(ask, target, template))
    yield Question(
        "change set",
        "whether CloudFormation could deploy it: properties, names, quotas, hooks",
        change_set.CALLS,
        partial(
            change_set.checked,
            target,
            template,
            bucket=assembly.bucket,
            token=token,
            clock=clock,
            warn=warn,
        ),
        passing=(
            "a change set, which is never executed; of a stack that is not deployed, a stack "
            f"without resources, {template.stack}-rehearsal-{token}; and the template in the "
            "bucket of the CDK's bootstrap, if it is too large for a call"
        ),
    )


def answers(question: Question) -> Iterator[Answer]:
    """The question's answers. What AWS does not answer is not asked, and no success."""
    try:
        yield from question.ask()
    except ClientError as error:
        message = str(translated(error, on_aws=True))
        if not is_denied(error):
            yield unasked(question.about, message)
            return
        code = error.response["Error"]
        yield unasked(
            question.about,
            f"not allowed: {error.operation_name}: {code.get('Message', code['Code'])}",
            f"ask with the rights {', '.join(question.calls)}",
        )
    except BotoCoreError as error:
        yield unasked(question.about, str(translated(error, on_aws=True)))
    except ResponseParserError as error:
        # No botocore error: a proxy between, or an endpoint that is not AWS.
        yield unasked(question.about, f"the answer could not be read: {error}")
    except (CommandError, LonghaulError) as error:
        yield unasked(question.about, str(error))


def _as_answers(about: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Answer]:
    for finding in check():
        yield Answer(finding.level, about, finding.what, finding.do)
