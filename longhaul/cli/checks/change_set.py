"""CloudFormation's own word: a change set that is never executed, and its removal.

Creating one makes CloudFormation check the template against the account: properties, names that are
taken, quotas, hooks. (Source: "Validate stack deployments", AWS CloudFormation User Guide.) Of a
stack that is not deployed, the change set belongs to a stack of another name, so that nothing that
is removed afterwards can be anybody's: CloudFormation makes such a stack without resources, and
keeps it in REVIEW_IN_PROGRESS.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from longhaul.adapters.errors import code_of, message_of
from longhaul.cli.checks.finding import Finding, ok, problem, skipped, warning
from longhaul.cli.checks.listed import checked
from longhaul.cli.checks.plan import Plan
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.signals import signals_ignored, stop_signals
from longhaul.ports import Clock

# CreateChangeSet takes a template of so many bytes in its call; a larger one from S3.
_INLINE: Final = 51_200
# The checks of a change set take seconds, its hooks may take minutes.
_LOOKS: Final = 200
_PAUSE_S: Final = 3.0
_RUNNING: Final = ("CREATE_PENDING", "CREATE_IN_PROGRESS")
# Only a stack that is not one of these can be updated; of these a first deployment begins anew.
_NEW: Final = (None, "ROLLBACK_COMPLETE", "REVIEW_IN_PROGRESS", "DELETE_COMPLETE")
_GONE: Final = ("ChangeSetNotFound", "ChangeSetNotFoundException", "ValidationError")
_UNCHANGED: Final = ("didn't contain changes", "No updates are to be performed")


def asked(plan: Plan, template: str, token: str, clock: Clock, out: Output) -> Iterator[Finding]:
    """Make a change set, report what CloudFormation finds, and remove it.

    `token` tells it from others.
    """
    stack = plan.target.stack
    status = _status(plan, stack)
    is_new = status in _NEW
    if not (is_new or str(status).endswith("_COMPLETE")):
        yield skipped(f"stack {stack}: it is {status}: a change set cannot be made now")
        return
    rehearsal = Rehearsal(
        plan, f"{stack}-rehearsal-{token}" if is_new else stack, f"rehearsal-{token}", is_new, clock
    )
    out.note(
        f"it makes, and removes again: a change set {rehearsal.name}, which is never executed; the "
        f"stack {rehearsal.stack} without resources, if none is deployed; and the template in the "
        "bucket of the CDK's bootstrap, if it is too large for a call",
        style="yellow",
    )
    with stop_signals():
        try:
            # All of it here: a generator that is left halfway would be closed at some later time.
            found = [*rehearsal.findings(template)]
        finally:
            with signals_ignored():
                left = rehearsal.remove()
            for each in left:
                # An interrupted rehearsal has no report that could say so.
                out.note(f"could not be removed: {each}", style="red")
    yield from found
    if left:
        yield problem("removal: something could not be removed", "; ".join(left))
    else:
        yield ok("removal: nothing of it is left")


@dataclass
class Rehearsal:
    """A change set of that name and stack, and what was made for it."""

    plan: Plan
    stack: str
    name: str
    is_new: bool
    clock: Clock
    _made: list[tuple[str, Callable[[], object]]] = field(default_factory=list)
    """Commands that remove what was made, and the calls that do so; the last one first."""

    def findings(self, template: str) -> Iterator[Finding]:
        client = self.plan.client("cloudformation")
        place = self._placed(template)
        before = len(self._made)
        if self.is_new:
            self._makes(
                f"aws cloudformation delete-stack --stack-name {self.stack}",
                partial(client.delete_stack, StackName=self.stack),
            )
        self._makes(
            f"aws cloudformation delete-change-set --stack-name {self.stack} "
            f"--change-set-name {self.name}",
            self._remove_change_set,
        )
        try:
            client.create_change_set(
                StackName=self.stack,
                ChangeSetName=self.name,
                ChangeSetType="CREATE" if self.is_new else "UPDATE",
                Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
                Description="A rehearsal of Longhaul: never executed, and deleted at its end",
                **place,
            )
        except ClientError as error:
            del self._made[before:]  # it was refused
            if code_of(error) != "ValidationError":
                raise
            yield problem(
                f"change set: {message_of(error)}", "correct the template, or report it to Longhaul"
            )
            return
        yield from checked((_changes, _events), self)

    def remove(self) -> list[str]:
        """Remove what was made; returns the commands for what could not be removed, and why."""
        left = []
        for command, remove in reversed(self._made):
            try:
                remove()
            except (ClientError, BotoCoreError, TimeoutError) as error:
                left.append(f"`{command} --region {self.plan.target.region}` ({error})")
        return left

    def pages(self, operation: str) -> Iterator[dict[str, Any]]:
        """The answers about the change set."""
        paginator = self.plan.client("cloudformation").get_paginator(operation)
        pages: Iterator[dict[str, Any]] = paginator.paginate(
            StackName=self.stack, ChangeSetName=self.name
        )
        return pages

    def looks(self) -> Iterator[None]:
        """Until the caller returns; raises TimeoutError after a while."""
        for _ in range(_LOOKS):
            yield
            self.clock.sleep(_PAUSE_S)
        raise TimeoutError(f"it was not done after {_LOOKS * _PAUSE_S:g} s")

    def _makes(self, command: str, remove: Callable[[], object]) -> None:
        self._made.append((command, remove))

    def _placed(self, template: str) -> dict[str, str]:
        """The template as an argument of the call; a large one goes into the bootstrap's bucket."""
        body = template.encode()
        if len(body) <= _INLINE:
            return {"TemplateBody": template}
        s3, region = self.plan.client("s3"), self.plan.target.region
        account, qualifier = (
            self.plan.target.identity["Account"],
            self.plan.settings.bootstrap_qualifier,
        )
        bucket = f"cdk-{qualifier}-assets-{account}-{region}"
        key = f"rehearsal/{self.name}.json"
        put = s3.put_object(Bucket=bucket, Key=key, Body=body)
        # The bucket keeps what is deleted: this is the version itself.
        version = {"VersionId": put["VersionId"]} if "VersionId" in put else {}
        self._makes(
            f"aws s3 rm s3://{bucket}/{key}",
            partial(s3.delete_object, Bucket=bucket, Key=key, **version),
        )
        suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        return {"TemplateURL": f"https://{bucket}.s3.{region}.{suffix}/{key}"}

    def _remove_change_set(self) -> None:
        """Also one whose creation still runs: until it is done, it cannot be deleted."""
        client = self.plan.client("cloudformation")
        for _ in self.looks():
            try:
                client.delete_change_set(StackName=self.stack, ChangeSetName=self.name)
            except ClientError as error:
                if code_of(error).startswith("InvalidChangeSetStatus"):
                    continue
                if code_of(error) not in _GONE:
                    raise
            return


def _changes(rehearsal: Rehearsal) -> Iterator[Finding]:
    """How the change set ends, and what would be lost."""
    try:
        for _ in rehearsal.looks():
            pages = list(rehearsal.pages("describe_change_set"))
            if pages[0]["Status"] not in _RUNNING:
                break
    except TimeoutError as error:
        yield skipped(f"change set: {error}")
        return
    status, why = pages[0]["Status"], pages[0].get("StatusReason", "")
    if status == "FAILED" and any(each in why for each in _UNCHANGED):
        yield ok("change set: the stack is deployed as it is: nothing would change")
        return
    if status != "CREATE_COMPLETE":
        yield problem(f"change set: {status}: {why}", "correct what CloudFormation names")
        return
    changes = [
        each["ResourceChange"]
        for page in pages
        for each in page["Changes"]
        if "ResourceChange" in each
    ]
    would = "could be made" if rehearsal.is_new else "would change"
    yield ok(f"change set: {status}: {len(changes)} resources {would}")
    for each in changes:
        removed = each["Action"] == "Remove"
        if removed or each.get("Replacement") == "True":
            yield warning(
                f"resource {each['LogicalResourceId']}: {each['ResourceType']} would be "
                f"{'removed' if removed else 'replaced'}",
                "docs/operations.md says what a deployment over running jobs does",
            )


def _events(rehearsal: Rehearsal) -> Iterator[Finding]:
    """What CloudFormation's checks and hooks have found."""
    events = (
        each
        for page in rehearsal.pages("describe_events")
        for each in page.get("OperationEvents", ())
    )
    for each in events:
        where = each.get("LogicalResourceId") or each.get("ResourceType") or "the stack"
        if each.get("EventType") == "HOOK_INVOCATION_ERROR":
            what, mode = f"hook {each.get('HookType')}", each.get("HookFailureMode")
            why = each.get("HookStatusReason", each.get("HookStatus", ""))
        elif each.get("EventType") == "VALIDATION_ERROR":
            what, mode = each.get("ValidationName", "a check"), each.get("ValidationFailureMode")
            why = each.get("ValidationStatusReason", "")
            if each.get("ValidationPath"):
                why = f"{why} ({each['ValidationPath']})"
        else:
            continue
        if each.get("ValidationStatus") == "SKIPPED":
            yield skipped(f"{what} of {where}: CloudFormation skipped it: {why}")
            continue
        said = warning if mode == "WARN" else problem
        yield said(
            f"{what} of {where}: {why}",
            "correct it before you deploy, or ask the account's platform team what a hook wants",
        )


def _status(plan: Plan, stack: str) -> str | None:
    """The status of the stack; None where there is none."""
    try:
        stacks = plan.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if code_of(error) != "ValidationError":
            raise
        return None
    return str(stacks[0]["StackStatus"])
