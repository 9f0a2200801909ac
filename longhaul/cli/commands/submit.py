"""`longhaul submit`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.display.text import counted
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.project import chosen
from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import (
    OUTPUT,
    REQUEST,
    AsJson,
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
    from collections.abc import Iterable, Sequence

    from longhaul.cli.target import Target
    from longhaul.operations.submit import Document, Problem, SubmitReport


_MAX_SHOWN = 20


@on_target
def submit(
    target: "Target",
    *,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="JSON: one request, an array of them, or one a line. `-`, or a pipe: stdin.",
            allow_dash=True,
        ),
    ] = None,
    job: JobOption = None,
    inputs: Inputs = None,
    output: Annotated[list[str] | None, OUTPUT] = None,
    params: Params = None,
    mode: Mode = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", help="fargate or emr-serverless.", rich_help_panel=REQUEST),
    ] = None,
    size: Size = None,
    timeout: Timeout = None,
    stall_timeout: Annotated[
        str | None,
        typer.Option(
            "--stall-timeout",
            help="Stop the job after this long without progress.",
            rich_help_panel=REQUEST,
        ),
    ] = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(
            "--max-attempts",
            help="Failures before the dead-letter queue.",
            rich_help_panel=REQUEST,
        ),
    ] = None,
    afresh: Annotated[
        bool,
        typer.Option(
            "--afresh",
            help="Leave what the job has stored in an earlier run.",
            rich_help_panel=REQUEST,
        ),
    ] = False,
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            help="What to call the job, such as 2026-10-07: shown in the place of its id.",
            rich_help_panel=REQUEST,
        ),
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option(
            "--tag",
            metavar="NAME=VALUE",
            help="To find the job by, such as day=2026-10-07. May be repeated.",
            rich_help_panel=REQUEST,
        ),
    ] = None,
    wanted_id: Annotated[
        str | None,
        typer.Option(
            "--job-id",
            help="Idempotency key of a single request: if it is sent twice, it runs once.",
        ),
    ] = None,
    stage: StageOption = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            help="The tenant whose requests these are (docs/stages.md#tenants).",
        ),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Wait for the outcomes, also of what follows; the exit code is 1 if a job did not"
            " succeed.",
        ),
    ] = False,
    only: Annotated[
        bool, typer.Option("--only", help="Wait for these jobs alone, not for what follows.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Send job requests to the queue.

    All requests are checked as the dispatcher would before any is sent; each error names its line
    (docs/reference/requests.md). Prints the job ids, one a line; --json adds the message ids, and
    with --wait the record of each job at its end.

    A request without a `job_id` gets one, so it runs once even if it is sent twice. Requests that
    could not be sent are written with their ids to a file unsent-TIME.jsonl, which can be submitted
    again. With --wait an id that belongs to a different request is refused.

    Without --stage they go to the first stage, which then gets no job that it does not expect: none
    beside its own `job`, and where others follow it, none that is another stage's.

    Example: longhaul submit --job sql --param 'query=SELECT 1 AS one' --output
    data:one/ --wait

    Example: generate-requests | longhaul submit --stage main
    """
    from longhaul.cli.terminal.outcomes import wait_for
    from longhaul.operations.named import checked_id
    from longhaul.operations.submit import WHOLE, Document, group_problem, new_ids, submissions
    from longhaul.operations.wait import conflicting

    out = Output(as_json=as_json)
    fields = request_fields(
        job=job,
        inputs=inputs,
        output=output,
        params=params,
        mode=mode,
        engine=engine,
        size=size,
        timeout=timeout,
        stall_timeout=stall_timeout,
        max_attempts=max_attempts,
        afresh=afresh or None,
        label=label,
        tags=tags,
    )
    if fields and file is not None:
        raise CommandError("give a file or the options of one request, not both", ExitStatus.USAGE)
    requests, problems = ([Document(WHOLE, fields)], []) if fields else _read(file)
    if wanted_id is not None:
        if len(requests) + len(problems) != 1:
            raise CommandError("--job-id names one request, and there are more", ExitStatus.USAGE)
        named = {"job_id": checked_id(wanted_id)}
        requests = [Document(each.position, {**each.fields, **named}) for each in requests]
    if group is not None and (unfit := group_problem(group)):
        raise CommandError(f"--group {unfit}", ExitStatus.USAGE)
    to_stage = target.open_stage(stage)
    now = target.parts.clock.now()
    sendable, more = submissions(
        requests,
        target.settings,
        to_stage,
        new_ids(now, target.parts.rng),
        is_named=stage is not None,
    )
    for note in _unknown_jobs(requests, target):
        out.note(note, style="yellow")
    _refuse([*problems, *more])
    _require_spark_if_needed(target, (each.request.job or to_stage.job for each in sendable))
    out.say_where(target)
    awaited = target.waiter.before(to_stage.name, sendable) if wait else []
    _refuse(conflicting(awaited, sendable))
    if not sendable:
        out.note("there is no request in it: nothing was sent", style="yellow")

    report = target.submitter.submit(to_stage.queue_url, sendable, group)
    # Before the printing, which may be interrupted.
    _keep_unsent(out, report, Path(f"unsent-{now:%Y%m%d-%H%M%S}.jsonl"))
    for each in report.sent:
        job_id = each.submission.job_id
        sent = {"job_id": job_id, "stage": to_stage.name, "message_id": each.message_id}
        out.item(sent, job_id)
    if report.stopped_by is not None:
        raise report.stopped_by
    if report.unsent:
        raise CommandError(f"{counted(len(report.unsent), 'request')} not sent")
    if wait:
        wait_for(out, target, awaited, only=only)


def _read(file: Path | None) -> "tuple[list[Document], list[Problem]]":
    from longhaul.operations.submit import documents

    if file is None and sys.stdin.isatty():
        raise CommandError(
            "nothing to submit: name a file, give --job and --output, or write requests to stdin",
            ExitStatus.USAGE,
        )
    try:
        raw = sys.stdin.buffer.read() if file is None or str(file) == "-" else file.read_bytes()
        return documents(raw.decode("utf-8-sig"))
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}", ExitStatus.USAGE) from None
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise CommandError(f"line {line}: is not UTF-8", ExitStatus.USAGE) from None


def _unknown_jobs(requests: "Sequence[Document]", target: "Target") -> list[str]:
    """Jobs of the project that requests name and its stack does not have, with the way out."""
    project = chosen()
    if project is None or project.stack_name != target.stack:
        return []
    way_out = (
        "the terminal of `longhaul up` says why"
        if target.place.embedded
        else "`longhaul deploy` takes it there"
    )
    named = {str(each.fields.get("job")) for each in requests}
    unknown = sorted((named & {*project.job_names}) - {*target.settings.jobs})
    return [
        f"{project.jobs.name}/{job}.py is there, and the stack does not have it: {way_out}"
        for job in unknown
    ]


def _require_spark_if_needed(target: "Target", jobs: "Iterable[str | None]") -> None:
    """End before anything is sent if jobs are to run in this environment, and could not."""
    from longhaul.cli.extras import require
    from longhaul.config.job_files import needs_spark
    from longhaul.config.project import bare

    project = chosen() or bare()
    for job in {*jobs} if target.place.embedded else ():
        if job and needs_spark(project, job):
            require("spark", what=f"the job {job}")


def _refuse(problems: "Sequence[Problem]") -> None:
    """Raises CommandError if there are any."""
    lines = [str(each) for each in problems]
    if lines:
        more = [f"… and {len(lines) - _MAX_SHOWN} more"] if len(lines) > _MAX_SHOWN else []
        said = [*lines[:_MAX_SHOWN], *more, "nothing was sent"]
        raise CommandError("\n".join(said), ExitStatus.USAGE)


def _keep_unsent(out: Output, report: "SubmitReport", file: Path) -> None:
    """Write the unsent requests to a file that can be submitted again."""
    if not report.unsent:
        return
    place = _keep_text(file, "".join(f"{each.submission.body}\n" for each in report.unsent))
    for reason in sorted({each.reason for each in report.unsent})[:_MAX_SHOWN]:
        out.note(reason, style="red")
    out.note(
        f"sent {len(report.sent)} of {len(report.sent) + len(report.unsent)}; the rest is {place}: "
        "submit it again (a request that did arrive is then a duplicate, and does no harm)",
        style="yellow",
    )


def _keep_text(file: Path, text: str) -> str:
    """Keep the text, and say where.

    An existing file is not replaced: it may hold what an earlier run could not send.
    """
    try:
        with file.open("x") as to:
            to.write(text)
    except OSError as error:
        sys.stderr.write(text)  # the last way to keep it
        return f"above ({file}: {error.strerror})"
    return f"in {file}"
