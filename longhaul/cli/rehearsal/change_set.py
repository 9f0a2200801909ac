"""CloudFormation's own word: a change set that is never executed, and its removal.

Creating one makes CloudFormation check the template against the account: properties, names that are
taken, quotas, hooks. (Source: "Validate stack deployments", AWS CloudFormation User Guide.) Of a
stack that is not deployed, the change set belongs to a stack of another name, so that nothing that
is removed afterwards can be anybody's: CloudFormation makes such a stack without resources, and
keeps it in REVIEW_IN_PROGRESS.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from longhaul.adapters.errors import code_of, message_of
from longhaul.cli.checks.finding import Finding, ok, problem, skipped, warning
from longhaul.cli.sentences import is_denied
from longhaul.cli.target import Target
from longhaul.cli.terminal.signals import signals_ignored
from longhaul.ports import Clock

# CreateChangeSet takes a template of so many bytes in its call; a larger one from S3.
_INLINE: Final = 51_200
_PATIENCE_S: Final = 600
"""For the change set: its checks take seconds, its hooks may take minutes."""
_REMOVAL_S: Final = 180
_PAUSE_S: Final = 3.0
_RUNNING: Final = ("CREATE_PENDING", "CREATE_IN_PROGRESS")
# Only these can be updated; of all others a first deployment begins anew.
_NEW: Final = ("ROLLBACK_COMPLETE", "REVIEW_IN_PROGRESS", "DELETE_COMPLETE")
_GONE: Final = ("ChangeSetNotFound", "ChangeSetNotFoundException", "ValidationError")
_UNCHANGED: Final = ("didn't contain changes", "No updates are to be performed")


@dataclass(frozen=True)
class Template:
    """A synthesized one, of this stack."""

    content: Mapping[str, Any]
    stack: str
    region: str
    partition: str


@dataclass
class Remains:
    """What is made for a moment, and the command that removes each."""

    target: Target
    clock: Clock
    stack: str
    name: str
    is_new: bool
    warn: Callable[[str], None]
    may_exist: bool = False  # the change set, and the stack of a new one
    place: tuple[str, str] | None = None  # bucket and key of the template
    left: list[str] = field(default_factory=list)

    def remove(self) -> None:
        """Remove all of it. What cannot be removed is told, with the command that removes it."""
        region = f"--region {self.target.region}"
        if self.may_exist:
            self._try(
                self._remove_change_set,
                f"aws cloudformation delete-change-set --stack-name {self.stack} "
                f"--change-set-name {self.name} {region}",
            )
        if self.may_exist and self.is_new:
            self._try(
                self._remove_stack,
                f"aws cloudformation delete-stack --stack-name {self.stack} {region}",
            )
        if self.place is not None:
            bucket, key = self.place
            self._try(self._remove_template, f"aws s3 rm s3://{bucket}/{key} {region}")

    def _try(self, step: Any, command: str) -> None:  # noqa: ANN401 - a bound method
        try:
            step()
        except (ClientError, BotoCoreError, TimeoutError) as error:
            self.left.append(f"`{command}` ({error})")
            # An interrupted rehearsal has no report that could say so.
            self.warn(f"could not be removed ({error}): {command}")

    def _remove_change_set(self) -> None:
        """Also one whose creation still runs: until it is done, it cannot be deleted."""
        client = self.target.client("cloudformation")
        for _ in self._tries():
            try:
                client.delete_change_set(StackName=self.stack, ChangeSetName=self.name)
            except ClientError as error:
                if code_of(error).startswith("InvalidChangeSetStatus"):
                    continue
                if code_of(error) in _GONE:
                    return
                raise
            return

    def _remove_stack(self) -> None:
        """The stack without resources: one that has begun to be anything else stays."""
        client = self.target.client("cloudformation")
        for _ in self._tries():
            status = _status(client, self.stack)
            if status in (None, "DELETE_COMPLETE"):
                return
            if status == "REVIEW_IN_PROGRESS":
                client.delete_stack(StackName=self.stack)
            elif status != "DELETE_IN_PROGRESS":
                raise TimeoutError(f"it is {status}: somebody has executed the change set")

    def _remove_template(self) -> None:
        """Each version of it: the bucket of the CDK's bootstrap keeps what is deleted."""
        assert self.place is not None  # noqa: S101 - the caller has looked
        bucket, key = self.place
        s3 = self.target.client("s3")
        pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=key)
        for page in pages:
            for each in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                s3.delete_object(Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"])

    def _tries(self) -> Iterator[None]:
        """Until the caller returns; raises TimeoutError after a while."""
        end = self.clock.now().timestamp() + _REMOVAL_S
        while True:
            yield
            if self.clock.now().timestamp() >= end:
                raise TimeoutError(f"it was there still after {_REMOVAL_S} s")
            self.clock.sleep(_PAUSE_S)


def checked(
    target: Target,
    template: Template,
    *,
    bucket: str,
    token: str,
    clock: Clock,
    warn: Callable[[str], None],
) -> Iterator[Finding]:
    """Make a change set, report what CloudFormation says of it, and remove it.

    Args:
        target: where.
        template: of the stack.
        bucket: that of the CDK's bootstrap, for a template that is too large for the call.
        token: what tells this rehearsal from others.
        clock: for the waits.
        warn: gets a sentence about each thing that could not be removed, at once.
    """
    client = target.client("cloudformation")
    status = _status(client, template.stack)
    if status is not None and status not in _NEW and not status.endswith("_COMPLETE"):
        yield skipped(f"stack {template.stack}: it is {status}: a change set cannot be made now")
        return
    is_new = status is None or status in _NEW
    stack = f"{template.stack}-rehearsal-{token}" if is_new else template.stack
    remains = Remains(target, clock, stack, f"rehearsal-{token}", is_new, warn)
    found: list[Finding] = []
    failure: Exception | None = None
    with _removed(remains):
        # All of it here: a generator that is left halfway would be closed at some later time.
        try:
            found.extend(_asked(client, remains, template, bucket))
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            failure = error
    yield from found
    if remains.left:
        yield problem("removal: something could not be removed", "; ".join(remains.left))
    else:
        yield ok("removal: nothing of it is left")
    if failure is not None:
        raise failure


@contextmanager
def _removed(remains: Remains) -> Iterator[None]:
    try:
        yield
    finally:
        with signals_ignored():
            remains.remove()


def _asked(
    client: Any,  # noqa: ANN401 - one of boto3's clients
    remains: Remains,
    template: Template,
    bucket: str,
) -> Iterator[Finding]:
    place = _placed(remains, template, bucket)
    remains.may_exist = True
    try:
        created = client.create_change_set(
            StackName=remains.stack,
            ChangeSetName=remains.name,
            ChangeSetType="CREATE" if remains.is_new else "UPDATE",
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
            Description="A rehearsal of Longhaul: never executed, and deleted at its end",
            **place,
        )
    except ClientError as error:
        remains.may_exist = not is_denied(error)
        if code_of(error) != "ValidationError":
            raise
        way_out = "correct the template, or report it to Longhaul"
        yield problem(f"change set: {message_of(error)}", way_out)
        return
    change_set = created["Id"]
    described = _described(client, change_set, remains.clock)
    if described is None:
        yield skipped(f"change set: it was not done after {_PATIENCE_S} s")
        return
    yield from _status_findings(described, remains)
    yield from _events(client, change_set)
    if described["Status"] == "CREATE_COMPLETE":
        yield from _hooks(client, change_set)


def _placed(remains: Remains, template: Template, bucket: str) -> dict[str, str]:
    body = json.dumps(template.content, separators=(",", ":"))
    if len(body.encode()) <= _INLINE:
        return {"TemplateBody": body}
    key = f"rehearsal/{remains.name}.json"
    remains.place = bucket, key
    try:
        remains.target.client("s3").put_object(Bucket=bucket, Key=key, Body=body.encode())
    except ClientError as error:
        if is_denied(error) or code_of(error) == "NoSuchBucket":
            remains.place = None
        raise
    suffix = "amazonaws.com.cn" if template.partition == "aws-cn" else "amazonaws.com"
    return {"TemplateURL": f"https://{bucket}.s3.{template.region}.{suffix}/{key}"}


def _described(client: Any, change_set: str, clock: Clock) -> dict[str, Any] | None:  # noqa: ANN401
    """The change set with all its changes, once it is made; None if that takes too long."""
    end = clock.now().timestamp() + _PATIENCE_S
    while True:
        pages = list(client.get_paginator("describe_change_set").paginate(ChangeSetName=change_set))
        if pages[0]["Status"] not in _RUNNING:
            return {**pages[0], "Changes": [each for page in pages for each in page["Changes"]]}
        if clock.now().timestamp() >= end:
            return None
        clock.sleep(_PAUSE_S)


def _status_findings(described: Mapping[str, Any], remains: Remains) -> Iterator[Finding]:
    status, why = described["Status"], described.get("StatusReason", "")
    if status == "FAILED" and any(each in why for each in _UNCHANGED):
        yield ok("change set: the stack is deployed as it is: nothing would change")
        return
    if status != "CREATE_COMPLETE":
        yield problem(f"change set: {status}: {why}", "correct what CloudFormation names")
        return
    changes = [each["ResourceChange"] for each in described["Changes"] if "ResourceChange" in each]
    if remains.is_new:
        yield ok(f"change set: CREATE_COMPLETE: {len(changes)} resources could be made")
        return
    yield ok(f"change set: CREATE_COMPLETE: {len(changes)} resources would change")
    for each in changes:
        lost = each["Action"] == "Remove" or each.get("Replacement") == "True"
        if lost:
            what = "removed" if each["Action"] == "Remove" else "replaced"
            yield warning(
                f"resource {each['LogicalResourceId']}: {each['ResourceType']} would be {what}",
                "docs/operations.md says what a deployment over running jobs does",
            )


def _events(client: Any, change_set: str) -> Iterator[Finding]:  # noqa: ANN401
    """What CloudFormation's checks and hooks have found."""
    pages = client.get_paginator("describe_events").paginate(ChangeSetName=change_set)
    for page in pages:
        for each in page.get("OperationEvents", ()):
            where = each.get("LogicalResourceId") or each.get("ResourceType") or "the stack"
            if each.get("EventType") == "VALIDATION_ERROR":
                name = each.get("ValidationName", "a check")
                why = each.get("ValidationStatusReason", "")
                place = f" ({each['ValidationPath']})" if each.get("ValidationPath") else ""
                if each.get("ValidationStatus") == "SKIPPED":
                    yield skipped(f"{name} of {where}: CloudFormation skipped it: {why}")
                    continue
                said = warning if each.get("ValidationFailureMode") == "WARN" else problem
                yield said(f"{name} of {where}: {why}{place}", "correct it before you deploy")
            elif each.get("EventType") == "HOOK_INVOCATION_ERROR":
                said = warning if each.get("HookFailureMode") == "WARN" else problem
                why = each.get("HookStatusReason", each.get("HookStatus", ""))
                yield said(
                    f"hook {each.get('HookType')} of {where}: {why}",
                    "ask the account's platform team what it wants of this resource",
                )


def _hooks(client: Any, change_set: str) -> Iterator[Finding]:  # noqa: ANN401
    """The hooks that the deployment would meet. They judge then, not now."""
    names: dict[str, str] = {}
    given: dict[str, str] = {"ChangeSetName": change_set}
    while True:
        page = client.describe_change_set_hooks(**given)
        names |= {each["TypeName"]: each["FailureMode"] for each in page.get("Hooks", ())}
        if not page.get("NextToken"):
            break
        given["NextToken"] = page["NextToken"]
    for name, mode in sorted(names.items()):
        yield warning(
            f"hook {name}: is asked at the deployment (failure mode {mode})",
            "ask the account's platform team what it wants",
        )
    if not names:
        yield ok("hooks: no hook judges these resources at the deployment")


def _status(client: Any, stack: str) -> str | None:  # noqa: ANN401
    """The status of the stack; None where there is none."""
    try:
        stacks = client.describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if code_of(error) != "ValidationError":
            raise
        return None
    return str(stacks[0]["StackStatus"])
