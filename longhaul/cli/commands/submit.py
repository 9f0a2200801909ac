"""`longhaul submit`."""

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import (
    AsJson,
    StageOption,
    inputs_option,
    job_option,
    output_option,
    params_option,
    timeout_option,
)

_REQUEST = "Request, instead of a file"


@on_target
def submit(  # noqa: PLR0913 - one option for each field of a request
    *,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="JSON: one request, an array of them, or one a line. `-`, or a pipe: stdin.",
            allow_dash=True,
        ),
    ] = None,
    job: Annotated[str | None, job_option(_REQUEST)] = None,
    inputs: Annotated[list[str] | None, inputs_option(_REQUEST)] = None,
    output: Annotated[list[str] | None, output_option(_REQUEST)] = None,
    params: Annotated[list[str] | None, params_option(_REQUEST)] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            help="For an output that exists already: overwrite, append or error; of a table also"
            " overwrite_partitions.",
            rich_help_panel=_REQUEST,
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", help="fargate or emr-serverless.", rich_help_panel=_REQUEST),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size", help="tiny, small, medium, large or xlarge.", rich_help_panel=_REQUEST
        ),
    ] = None,
    timeout: Annotated[str | None, timeout_option(_REQUEST)] = None,
    stall_timeout: Annotated[
        str | None,
        typer.Option(
            "--stall-timeout",
            help="Stop the job after this long without progress.",
            rich_help_panel=_REQUEST,
        ),
    ] = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(
            "--max-attempts",
            help="Failures before the dead-letter queue.",
            rich_help_panel=_REQUEST,
        ),
    ] = None,
    afresh: Annotated[
        bool,
        typer.Option(
            "--afresh",
            help="Leave what the job has stored in an earlier run.",
            rich_help_panel=_REQUEST,
        ),
    ] = False,
    start_at: Annotated[
        str | None,
        typer.Option(
            "--at",
            help="Begin no sooner, such as 2026-12-01T06:00+01:00; at most 90 days ahead.",
            rich_help_panel=_REQUEST,
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            help="What to call the job, such as 2026-10-07: shown in the place of its id.",
            rich_help_panel=_REQUEST,
        ),
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option(
            "--tag",
            metavar="NAME=VALUE",
            help="To find the job by, such as day=2026-10-07. May be repeated.",
            rich_help_panel=_REQUEST,
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
            help="The tenant whose requests these are: SQS's message group, for a fair queue.",
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
    unsent: Annotated[
        Path | None,
        typer.Option(
            "--unsent",
            help="The file for requests that could not be sent.",
            show_default="unsent-<time>.jsonl",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send job requests to the queue.

    All requests are checked before any is sent; each error names its line. Prints the job ids, one
    a line; --json adds the message ids. Requests that could not be sent are written to a file that
    can be submitted again: none is lost, and none runs twice.

    Example: longhaul submit --job sql --param 'query=SELECT 1 AS one' --output
    data:one/ --wait

    Example: generate-requests | longhaul submit --stage main
    """
