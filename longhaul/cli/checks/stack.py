"""What is deployed: whether jobs start there, and what waits for a person."""

from collections.abc import Iterator

from botocore.exceptions import ClientError

from longhaul.cli.checks.finding import Finding, ok, problem, skipped, warning
from longhaul.cli.display.slots import letters_of, paused_since, set_by_operator
from longhaul.cli.display.text import counted
from longhaul.cli.project import chosen
from longhaul.cli.sentences import sentence
from longhaul.cli.target import Target
from longhaul.config.sources import version
from longhaul.operations.secrets import is_there, stage_secrets
from longhaul.operations.stage_counts import counts_of


def deployment(target: Target) -> Iterator[Finding]:
    stack, settings = target.deployment, target.settings
    stages = ", ".join(f"{each.name} ({counted(each.slots, 'slot')})" for each in settings.stages)
    text = (
        f"stack: {stack.name} is {stack.status}: stages {stages}; jobs {', '.join(settings.jobs)}"
    )
    if stack.status.endswith(("_IN_PROGRESS", "ROLLBACK_FAILED", "ROLLBACK_COMPLETE", "_FAILED")):
        yield warning(text, "look at its events in CloudFormation, and deploy again")
    else:
        yield ok(text)


def versions(target: Target) -> Iterator[Finding]:
    """Whether the stack, the project and this tool are of one version."""
    tool, deployed, project = version(), target.deployment.outputs.get("LonghaulVersion"), chosen()
    if project is not None and project.version != tool:
        text = f"is for {project.version}" if project.version else "names no version"
        yield warning(
            f"version: {project.file.name} {text}, and this is {tool}: settings may have other "
            "names or defaults, and jobs other rules",
            f'read CHANGELOG.md, then set version = "{tool}" there; or use Longhaul of the '
            "project's version",
        )
    if deployed != tool:
        yield warning(
            f"version: the stack was deployed by {deployed}, and this is {tool}: commands may "
            "misread its rows",
            "use Longhaul of that version for its commands, or deploy this one",
        )
    else:
        yield ok(f"version: {tool} has deployed the stack")


def mappings(target: Target) -> Iterator[Finding]:
    """Nothing starts while the mapping from queue to dispatcher is off."""
    sqs, lambda_ = target.client("sqs"), target.client("lambda")
    for stage in target.settings.stages:
        attributes = sqs.get_queue_attributes(
            QueueUrl=stage.queue_url, AttributeNames=["QueueArn"]
        )["Attributes"]
        found = lambda_.list_event_source_mappings(EventSourceArn=attributes["QueueArn"])[
            "EventSourceMappings"
        ]
        is_good = [
            each["State"] == "Enabled"
            and "ReportBatchItemFailures" in each.get("FunctionResponseTypes", ())
            for each in found
        ]
        if is_good == [True]:
            yield ok(f"mapping: the queue of stage {stage.name} feeds the dispatcher")
            continue
        states = [f"{each['UUID']} is {each['State']}" for each in found] or ["none is there"]
        yield problem(
            f"mapping: the queue of stage {stage.name} needs one that is on and reports batch item "
            f"failures: {', '.join(states)}: no job starts, or messages of running jobs are lost",
            "`aws lambda update-event-source-mapping --enabled --uuid …` for one that is off; else "
            "deploy again, and remove mappings that the stack did not make",
        )


def slots(target: Target) -> Iterator[Finding]:
    """What an operator has set, and no deployment ends."""
    for stage in target.settings.stages:
        use = target.parts.slots.use(stage)
        if use.paused_at:
            yield problem(
                f"slots: stage {stage.name} is {paused_since(use)}: no job starts",
                f"`longhaul stage resume {stage.name}`; of a drained stack `longhaul stage drain "
                "--undo`, or `longhaul destroy`",
            )
        elif use.is_by_hand:
            yield warning(
                f"slots: stage {stage.name} has {use.slots}{set_by_operator(use, stage)}",
                f"`longhaul stage slots {stage.name} {stage.slots}` goes back to what is deployed",
            )
        else:
            yield ok(f"slots: stage {stage.name} has those that are deployed")


def secrets(target: Target) -> Iterator[Finding]:
    """Whether the secrets of stages are there. No value is read."""
    for secret in stage_secrets(target):
        what = f"secrets: {secret.variable} of stage {secret.stage}"
        try:
            if is_there(target, secret.ref):
                yield ok(f"{what} is there")
                continue
        except ClientError as error:
            yield skipped(f"{what}: {sentence(error)}")
            continue
        yield problem(
            f"{what}: {secret.ref.arn} is not there, or is being deleted: the stage's jobs wait",
            "make or restore it, or name another in the stage's secrets",
        )


def dead_letters(target: Target) -> Iterator[Finding]:
    for stage in target.settings.stages:
        counts = counts_of(target, stage, begun=0)
        text = f"stage {stage.name}: {letters_of(counts)}"
        if counts.dead_letters:
            yield warning(
                text, "`longhaul dlq list` says why; then `longhaul rerun --dead`, or `dlq drop`"
            )
        else:
            yield ok(text)


def alarms(target: Target) -> Iterator[Finding]:
    """What the stack's own alarms have seen: the sweeper, stuck jobs, refused tasks."""
    names = list(target.physical("AWS::CloudWatch::Alarm").values())
    if target.place.embedded:
        yield skipped("alarms: the embedded AWS has none")
        return
    found = target.client("cloudwatch").describe_alarms(AlarmNames=names)["MetricAlarms"]
    ringing = [each["AlarmDescription"] for each in found if each["StateValue"] == "ALARM"]
    if ringing:
        yield problem(
            f"alarms: {'; '.join(ringing)}", "docs/operations.md says what to do about each"
        )
    else:
        yield ok(f"alarms: none of {len(found)} rings")
