"""`longhaul backfill`."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import (
    OUTPUT,
    REQUEST,
    AsJson,
    DryRun,
    Inputs,
    JobOption,
    Mode,
    Params,
    Size,
    StageOption,
    Timeout,
)
from longhaul.cli.terminal.output import Output
from longhaul.cli.terminal.requests import request_fields

if TYPE_CHECKING:
    from longhaul.cli.target import Target
    from longhaul.core.settings import Stage
    from longhaul.operations.backfill import Planned


_MAX_SHOWN = 20


@on_target
def backfill(
    target: "Target",
    *,
    values: Annotated[
        str,
        typer.Option(
            "--over",
            metavar="NAME=VALUES",
            help="FROM..TO, both included (2026-10-01T06 hours, 2026-10-01 days, 2026-W40 weeks of"
            " ISO 8601, 2026-10 months), A,B,C, or @FILE with a value a line.",
        ),
    ],
    job: JobOption = None,
    inputs: Inputs = None,
    output: Annotated[list[str], OUTPUT],
    params: Params = None,
    mode: Mode = None,
    size: Size = None,
    timeout: Timeout = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--label", help="Each job's label.", show_default="{NAME}", rich_help_panel=REQUEST
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="Of the backfill: how its job ids begin, and its tag.",
            show_default="made of the request",
        ),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(
            min=1, help="At most this many of its jobs at a time.", show_default="the stage's"
        ),
    ] = None,
    dry_run: DryRun = False,
    only: Annotated[
        bool, typer.Option("--only", help="Wait for these jobs alone, not for what follows.")
    ] = False,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Send a request for each value of a range, a few at a time, and wait for the outcomes.

    With `--over day=…`, `{day}` is the value wherever it stands in inputs, output, parameters and
    label; `{day:%Y/%m}` is a part of a time, in the codes of `strftime`, and `{{day}}` the text.
    Values that would write to the same output are refused, unless they append or replace partitions
    of a table. So are more than 10,000.

    The id of each job is NAME/VALUE; its tags are backfill=NAME and day=VALUE. Without --name the
    name is made of the request, so the same command is the same backfill, with a longer range too.
    `status`, `cancel` and `rerun` take the name for all its jobs and what descends from them.

    After an interrupt, or a failure, start the same command again. What has succeeded with the same
    request is passed over, what is queued, runs or waits is waited for, and what died or was
    cancelled runs again. If one has succeeded with another request, nothing is sent: take another
    --name. The exit code is 1 if a job did not succeed.

    Example: longhaul backfill --job parse --over day=2026-10-01..2026-10-31 --input
    'logs=s3://weblogs/raw/{day}/' --output 's3://weblogs/hits/{day}/' --slots 4
    """
    from longhaul.cli.terminal.outcomes import wait_for

    out = Output(as_json=as_json)
    to_stage = target.open_stage(stage)
    template = request_fields(
        job=job,
        inputs=inputs,
        output=output,
        params=params,
        mode=mode,
        size=size,
        timeout=timeout,
        label=label,
    )
    is_named = stage is not None
    key, planned = _plan(target, to_stage, template, values, name, is_named=is_named)
    if dry_run:
        _show(out, planned)
        return
    out.say_where(target)
    out.note(f"status, cancel and rerun take its name: {key.partition('#')[2]}")
    _say(out, planned)
    course, said = None, 0
    # Also a number that was set by hand.
    at_once = slots or target.parts.slots.use(to_stage).slots
    try:
        for course in target.backfiller.run(to_stage, key, planned, at_once):
            if len(course.left) != said:
                said = len(course.left)
                out.note(f"{len(course.open)} open, {len(course.done)} ended, {said} to be sent")
    except KeyboardInterrupt:
        out.note(
            f"no more is sent; what was sent goes on (`longhaul status {key.partition('#')[2]}`), "
            "and the same command sends the rest",
            style="yellow",
        )
        raise
    if course is not None and course.unsent:
        raise CommandError(
            f"{len(course.unsent)} requests were not sent ({course.unsent[0].reason}): start the "
            "same command again"
        )
    awaited = [each.awaited for each in planned if each.step != "skip"]
    if awaited:
        wait_for(out, target, awaited, only=only)


def _plan(
    target: "Target",
    stage: "Stage",
    template: dict[str, Any],
    values: str,
    name: str | None,
    *,
    is_named: bool,
) -> "tuple[str, list[Planned]]":
    """The backfill's key, and its requests, checked, each with what is known of its job.

    Raises:
        CommandError: nothing is sent, for these reasons.
    """
    from longhaul.operations.backfill import Planned, behind_opener, documents, over, shared_outputs
    from longhaul.operations.submit import submissions
    from longhaul.operations.wait import conflicting

    if problem := behind_opener(stage, target.settings.stages):
        raise CommandError(problem, ExitStatus.USAGE)
    which = over(values, _read)
    code = str(template.get("job") or stage.job or "job").rpartition("/")[2].removesuffix(".py")
    name, requests = documents(template, which, name, code)
    # Each has its id.
    sendable, problems = submissions(requests, target.settings, stage, str, is_named=is_named)
    awaited = target.waiter.before(stage.name, sendable)
    problems += [*shared_outputs(sendable), *conflicting(awaited, sendable)]
    planned = [Planned(*each) for each in zip(sendable, awaited, strict=True)]
    found = [*_wrong_name(target, stage, name, planned), *map(str, problems)]
    if found:
        raise CommandError("\n".join(found[:_MAX_SHOWN]), ExitStatus.USAGE)
    return f"{stage.name}#{name}", planned


def _wrong_name(target: "Target", stage: "Stage", name: str, planned: "list[Planned]") -> list[str]:
    """Why a backfill of these jobs cannot have that name."""
    from longhaul.operations.backfill import MAX_ITEM, size_with
    from longhaul.operations.named import find_at

    key = f"{stage.name}#{name}"
    known = target.parts.backfills.find_backfills([key]).get(key)
    found = find_at(target, key)
    if known is None and found is not None and not found.is_mark:
        return [f"--name: {name} is the id of a job, which status and cancel would mean"]
    if size_with(known, planned) > MAX_ITEM:
        return [f"{name} has too many values, with those sent before: give these another --name"]
    return []


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file}: {error}", ExitStatus.USAGE) from None


def _show(out: Output, planned: "list[Planned]") -> None:
    records = (
        {
            "step": each.step,
            "state": each.why or None,
            "value": each.submission.position,
            "request": json.loads(each.submission.body),
        }
        for each in planned
    )
    rows = (
        [
            each.submission.job_id,
            each.step,
            each.why,
            each.submission.position,
            ", ".join(each.submission.request.places.values()),
        ]
        for each in planned
    )
    out.listing(records, ("job", "step", "state", "value", "output"), rows)
    _say(out, planned)


def _say(out: Output, planned: "list[Planned]") -> None:
    counts = Counter(each.step for each in planned)
    again = sum(each.step == "send" and bool(each.why) for each in planned)
    out.note(
        f"{counts['send']} to be sent ({again} of them again), {counts['wait']} under way, "
        f"{counts['skip']} have succeeded"
    )
