"""The stack: whether it is complete, runs, and is the one that would be deployed from here."""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from longhaul.cli.checks.finding import Finding, ok, problem, skipped, warning
from longhaul.cli.display.slots import paused_since, set_by_operator
from longhaul.cli.display.text import counted
from longhaul.cli.extras import lacking
from longhaul.cli.local_project import local_synth
from longhaul.cli.project import chosen
from longhaul.cli.synth import synth
from longhaul.cli.target import Target
from longhaul.config.settings import CONTEXT_KEY
from longhaul.config.sources import is_installed
from longhaul.operations.mappings import ON

OUTPUTS = (
    "JobsQueueUrl",
    "DeadLetterQueueUrl",
    "LeasesTableName",
    "StateMachineArn",
    "DataBucketName",
)
_MAX_NAMED = 6
# The digest of an asset, and the names of the jobs among the settings of functions and tasks.
_TAKEN_UP = re.compile(r'\b[0-9a-f]{64}\b|(?<=\\"jobs\\":)\[[^\]]*\]')


def deployment(target: Target) -> Iterator[Finding]:
    stack = target.deployment
    if stack.status.endswith(("_IN_PROGRESS", "ROLLBACK_FAILED", "ROLLBACK_COMPLETE", "_FAILED")):
        yield warning(
            f"stack: {stack.name} is {stack.status}",
            "look at its events in CloudFormation, and deploy again",
        )
    else:
        yield ok(f"stack: {stack.name} is {stack.status}")
    missing = [name for name in OUTPUTS if name not in stack.outputs]
    if missing:
        yield problem(
            f"stack: has no output {', '.join(missing)}", "deploy it again with `longhaul deploy`"
        )
    settings = target.settings
    stages = ", ".join(
        f"{stage.name} ({counted(stage.slots, 'slot')})" for stage in settings.stages
    )
    yield ok(f"stack: stages {stages}; jobs {', '.join(settings.jobs)}")


def functions(target: Target) -> Iterator[Finding]:
    lambda_ = target.client("lambda")
    bad = []
    names = target.physical("AWS::Lambda::Function")
    for name in names.values():
        status = lambda_.get_function_configuration(FunctionName=name)
        if (
            status.get("State", "Active") not in ("Active", "Inactive")
            or status.get("LastUpdateStatus") == "Failed"
        ):
            bad.append(
                f"{name} ({status.get('State')}: "
                f"{status.get('StateReason') or status.get('LastUpdateStatusReason')})"
            )
    if bad:
        yield problem(f"functions: {', '.join(bad)}", "deploy again")
    else:
        yield ok(f"functions: all {len(names)} are ready")


def mappings(target: Target) -> Iterator[Finding]:
    """Nothing starts while the mapping from queue to dispatcher is off."""
    for stage in target.settings.stages:
        here = target.mappings.of(stage)
        if len(here) != 1:
            yield problem(
                f"mapping: {len(here)} mappings read the queue of stage {stage.name}, not one",
                "deploy again, and remove mappings that the stack did not make",
            )
            continue
        (mapping,) = here
        if mapping.state != ON:
            yield problem(
                f"mapping: that of stage {stage.name} is {mapping.state} "
                f"({mapping.reason}): no job starts",
                f"aws lambda update-event-source-mapping --uuid {mapping.uuid} --enabled",
            )
        elif not mapping.reports_item_failures:
            yield problem(
                f"mapping: that of stage {stage.name} does not report batch item failures: "
                "it deletes messages of running jobs",
                "deploy again, at once",
            )
        else:
            yield ok(f"mapping: the queue of stage {stage.name} feeds the dispatcher")


def slots(target: Target) -> Iterator[Finding]:
    """What an operator has set, and no deployment ends."""
    uses = [(stage, target.parts.slots.use(stage)) for stage in target.settings.stages]
    if all(use.paused_at for _, use in uses):
        yield problem(
            "slots: all stages are paused, as in a drained stack: no job starts",
            "`longhaul stage drain --undo` lets jobs start; `longhaul destroy` takes it down",
        )
        return
    for stage, use in uses:
        if use.paused_at:
            yield problem(
                f"slots: stage {stage.name} is {paused_since(use)}: no job starts",
                f"`longhaul stage resume {stage.name}`",
            )
        elif use.is_by_hand:
            yield warning(
                f"slots: stage {stage.name} has {use.slots}{set_by_operator(use, stage)}",
                f"`longhaul stage slots {stage.name} {stage.slots}` goes back to what is deployed",
            )
    if not any(use.paused_at or use.is_by_hand for _, use in uses):
        yield ok("slots: no stage is paused, and all have the slots that are deployed")


def rules(target: Target) -> Iterator[Finding]:
    """The rules that start the sweeper."""
    events = target.client("events")
    names = [
        arn.rpartition("/")[2].rpartition("|")[2]
        for arn in target.physical("AWS::Events::Rule").values()
    ]
    off = [name for name in names if events.describe_rule(Name=name)["State"] != "ENABLED"]
    if off:
        yield problem(
            f"sweeper: rules are off: {', '.join(off)}", f"aws events enable-rule --name {off[0]}"
        )
    elif not names:
        yield problem("sweeper: the stack has no rule that starts it", "deploy again")
    else:
        yield ok(f"sweeper: the {len(names)} rules that start it are on")


def drift(target: Target) -> Iterator[Finding]:
    """The deployed template against the one that would be deployed from here."""
    if why := lacking("deploy", "aws_cdk"):
        yield skipped(f"template: a comparison {why}")
        return
    body = deployed_template(target)
    if body is None:
        yield skipped("template: was not deployed as JSON, so not by this app")
        return
    with tempfile.TemporaryDirectory(prefix="longhaul-check-") as folder:
        project = chosen()
        assembly = (
            local_synth(Path(folder))
            if target.place.embedded
            else synth(
                Path(folder),
                profile=None,
                context={CONTEXT_KEY: {"stack_name": target.stack}},
                project=project.folder if project else None,
            )
        )
        here = json.loads((assembly / f"{target.stack}.template.json").read_text())
    ours = "this project" if project else "this version" if is_installed() else "this checkout"
    if target.place.embedded:
        # An edited job runs from its next attempt on, whatever its asset was called at the start,
        # and a new one a second after it is there.
        body, here = _without_jobs(body), _without_jobs(here)
    differences = list(_differences(body.get("Resources", {}), here.get("Resources", {})))
    if not differences:
        yield ok(f"template: the stack is the one of {ours}")
        return
    text = "; ".join(differences[:_MAX_NAMED]) + (" …" if len(differences) > _MAX_NAMED else "")
    yield warning(
        f"template: {counted(len(differences), 'difference')} to {ours}: {text}",
        f"deploy {ours}, or check out what was deployed "
        "(settings given to the deploy by -c are not known here)",
    )


def deployed_template(target: Target) -> Mapping[str, Any] | None:
    """The template of the stack; None for one that is no JSON."""
    found: Any = target.client("cloudformation").get_template(StackName=target.stack)
    body = found["TemplateBody"]  # boto3 parses a JSON template
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            return None
    return body if isinstance(body, Mapping) else None


def _without_jobs(template: Mapping[str, Any]) -> Mapping[str, Any]:
    masked: Mapping[str, Any] = json.loads(_TAKEN_UP.sub("…", json.dumps(template)))
    return masked


def _differences(deployed: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(deployed.keys() | here.keys()):
        if name not in here:
            yield f"{name} is only deployed"
        elif name not in deployed:
            yield f"{name} is only here"
        elif (before := deployed[name].get("Properties")) != (
            after := here[name].get("Properties")
        ):
            changed = sorted(
                key
                for key in {*(before or {}), *(after or {})}
                if (before or {}).get(key) != (after or {}).get(key)
            )
            yield f"{name}: {', '.join(changed)}"
