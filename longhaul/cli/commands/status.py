"""`longhaul status`."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import (
    MANY,
    AsJson,
    LabelOption,
    NewerThan,
    OlderThan,
    Only,
    ShownState,
    StageOption,
    TagOption,
)


@on_target
def status(  # noqa: PLR0913 - filters
    *,
    job: Annotated[str | None, typer.Argument(help="A job's id; without it, a list.")] = None,
    stage: StageOption = None,
    state: Annotated[
        list[ShownState] | None,
        typer.Option(
            "--state", case_sensitive=False, help="Only jobs in this state; may be repeated."
        ),
    ] = None,
    label: LabelOption = None,
    tags: TagOption = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    limit: Annotated[
        int,
        typer.Option(
            min=1,
            max=MANY,
            help="At most this many open jobs, ended jobs, and jobs of a fan-out.",
        ),
    ] = 20,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            "-w",
            help="Keep watching; a single job until it ends, with its outcome as exit code.",
        ),
    ] = False,
    only: Only = False,
    as_json: AsJson = False,
) -> None:
    """Show a job and its follow-ons, or the open jobs and those that ended last.

    Open jobs run, wait for their next attempt, or still owe something; ended ones follow, the
    latest first. A queued job has no row yet: the last lines count the queues. The age of a job is
    the time since its run began or ended.

    Example: longhaul status flights-2013-01

    Example: longhaul status --state dead --newer-than 1d --json

    Example: longhaul status --label '2026-10-*' --tag team=web
    """
