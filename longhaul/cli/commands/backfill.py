"""`longhaul backfill`."""

from typing import TYPE_CHECKING, Annotated

import typer

from longhaul.cli.terminal.command import on_target
from longhaul.cli.terminal.options import (
    AsJson,
    Only,
    StageOption,
    inputs_option,
    job_option,
    output_option,
    params_option,
    timeout_option,
)

if TYPE_CHECKING:
    from longhaul.cli.target import Target

_REQUEST = "Request; {NAME} is the value, {NAME:%Y/%m} a part of a time"


@on_target
def backfill(
    target: "Target",
    *,
    values: Annotated[
        str,
        typer.Option(
            "--over",
            metavar="NAME=VALUES",
            help="FROM..TO (2026-10-01T06 hours, 2026-10-01 days, 2026-W40 weeks, 2026-10 months),"
            " A,B,C, or @FILE with a value a line.",
        ),
    ],
    job: Annotated[str | None, job_option(_REQUEST)] = None,
    inputs: Annotated[list[str] | None, inputs_option(_REQUEST)] = None,
    output: Annotated[list[str], output_option(_REQUEST)],
    params: Annotated[list[str] | None, params_option(_REQUEST)] = None,
    mode: Annotated[
        str | None,
        typer.Option("--mode", help="For an output that exists.", rich_help_panel=_REQUEST),
    ] = None,
    size: Annotated[
        str | None, typer.Option("--size", help="The tasks' size.", rich_help_panel=_REQUEST)
    ] = None,
    timeout: Annotated[str | None, timeout_option(_REQUEST)] = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--label", help="Each job's label.", show_default="{NAME}", rich_help_panel=_REQUEST
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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be sent.")
    ] = False,
    only: Only = False,
    stage: StageOption = None,
    as_json: AsJson = False,
) -> None:
    """Send a request for each value of a range, a few at a time, and wait for the outcomes.

    What has succeeded with the same request is passed over, what runs is waited for, and what died
    or was cancelled is run again. So after an interrupt, or a failure, start the same command
    again. `longhaul status`, `cancel` and `retry` take its name for all of them, and they have the
    tag backfill=NAME. The exit code is 1 if a job did not succeed.

    Example: longhaul backfill --job parse --over day=2026-10-01..2026-10-31 --input
    'logs=s3://weblogs/raw/{day}/' --output 's3://weblogs/hits/{day}/' --slots 4
    """
    from longhaul.cli.work.backfill import backfill as run

    run(
        target,
        values=values,
        job=job,
        inputs=inputs,
        output=output,
        params=params,
        mode=mode,
        size=size,
        timeout=timeout,
        label=label,
        name=name,
        slots=slots,
        dry_run=dry_run,
        only=only,
        stage=stage,
        as_json=as_json,
    )
