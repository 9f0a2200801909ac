"""CloudFormation's own word: a change set that is never executed, and its removal.

Creating one makes CloudFormation check the template against the account: properties, names that are
taken, quotas, hooks. (Source: "Validate stack deployments", AWS CloudFormation User Guide.) Of a
stack that is not deployed, the change set belongs to a stack of another name, so that nothing that
is removed afterwards can be anybody's: CloudFormation makes such a stack without resources.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from botocore.exceptions import ClientError

from longhaul.cli.checks.finding import Finding, ok, problem, warning
from longhaul.cli.checks.plan import Plan
from longhaul.cli.errors import CommandError
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.signals import signals_ignored, stop_signals
from longhaul.core.aws_errors import code_of

Sleep = Callable[[float], None]

# The checks of a change set take seconds, its hooks may take minutes.
_LOOKS: Final = 200
_PAUSE_S: Final = 3.0
_RUNNING: Final = ("CREATE_PENDING", "CREATE_IN_PROGRESS")
_GONE: Final = ("ChangeSetNotFound", "ChangeSetNotFoundException", "ValidationError")
_UNCHANGED: Final = ("didn't contain changes", "No updates are to be performed")
# How the names of an event's fields begin, by its type.
_FIELDS: Final = {"VALIDATION_ERROR": "Validation", "HOOK_INVOCATION_ERROR": "Hook"}


def asked(plan: Plan, template: str, token: str, sleep: Sleep, out: Output) -> Iterator[Finding]:
    """Make a change set, report what CloudFormation finds, and remove it.

    `token` tells it from others.
    """
    client, stack = plan.target.client("cloudformation"), plan.target.stack
    is_new = plan.is_first
    named = {
        "StackName": f"{stack}-rehearsal-{token}" if is_new else stack,
        "ChangeSetName": f"rehearsal-{token}",
    }
    place = _placed(plan, template)
    out.note(
        f"it makes, and removes again: the change set {named['ChangeSetName']} of the stack "
        f"{named['StackName']}, which is never executed",
        style="yellow",
    )
    with stop_signals():
        try:
            client.create_change_set(
                **named,
                ChangeSetType="CREATE" if is_new else "UPDATE",
                Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
                TemplateURL=place,
            )
            # All of it here: a generator that is left halfway would be closed at some later time.
            found = [*_changes(_ended(client, named, sleep)), *_events(client, named)]
        finally:
            with signals_ignored():
                _remove(client, named, sleep)
                if is_new:
                    client.delete_stack(StackName=named["StackName"])
    yield from found


def _placed(plan: Plan, template: str) -> str:
    """Put the template where the CDK puts those that it deploys; returns its URL.

    It is too large for a call.
    """
    region, account = plan.target.region, plan.target.identity["Account"]
    bucket = f"cdk-{plan.settings.bootstrap_qualifier}-assets-{account}-{region}"
    body = template.encode()
    key = f"{hashlib.sha256(body).hexdigest()}.json"
    plan.target.client("s3").put_object(Bucket=bucket, Key=key, Body=body)
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://{bucket}.s3.{region}.{suffix}/{key}"


def _ended(client: Any, named: Mapping[str, str], sleep: Sleep) -> list[dict[str, Any]]:  # noqa: ANN401 - one of boto3's clients
    """The pages of the change set, once it is made or has failed."""
    for _ in range(_LOOKS):
        pages = list(client.get_paginator("describe_change_set").paginate(**named))
        if pages[0]["Status"] not in _RUNNING:
            return pages
        sleep(_PAUSE_S)
    raise CommandError(f"the change set was not done after {_LOOKS * _PAUSE_S:g} s")


def _changes(pages: list[dict[str, Any]]) -> Iterator[Finding]:
    """How the change set ends, and what would be lost."""
    status, why = pages[0]["Status"], pages[0].get("StatusReason", "")
    changes = [each.get("ResourceChange", {}) for page in pages for each in page.get("Changes", ())]
    if status == "CREATE_COMPLETE":
        yield ok(f"change set: {len(changes)} resources would be made or changed")
    elif any(each in why for each in _UNCHANGED):
        yield ok("change set: the stack is deployed as it is: nothing would change")
    else:
        yield problem(f"change set: {status}: {why}", "correct what CloudFormation names")
    for each in changes:
        if each.get("Action") == "Remove" or each.get("Replacement") == "True":
            yield warning(
                f"resource {each['LogicalResourceId']}: {each['ResourceType']} would be removed or "
                "replaced",
                "docs/operations.md says what a deployment over running jobs does",
            )


def _events(client: Any, named: Mapping[str, str]) -> Iterator[Finding]:  # noqa: ANN401 - as above
    """What CloudFormation's checks and hooks have found."""
    for page in client.get_paginator("describe_events").paginate(**named):
        for each in page.get("OperationEvents", ()):
            if (begins := _FIELDS.get(each.get("EventType"))) is None:
                continue
            name = each.get("ValidationName") or each.get("HookType")
            where = each.get("LogicalResourceId") or each.get("ValidationPath") or "the stack"
            says = warning if each.get(f"{begins}FailureMode") == "WARN" else problem
            yield says(
                f"{name} of {where}: {each.get(f'{begins}StatusReason', '')}",
                "correct it before you deploy, or ask the account's platform team",
            )


def _remove(client: Any, named: Mapping[str, str], sleep: Sleep) -> None:  # noqa: ANN401 - as above
    """Also one whose creation still runs: until it is done, it cannot be deleted."""
    for _ in range(_LOOKS):
        try:
            client.delete_change_set(**named)
        except ClientError as error:
            if code_of(error).startswith("InvalidChangeSetStatus"):
                sleep(_PAUSE_S)
                continue
            if code_of(error) not in _GONE:
                raise
        return
