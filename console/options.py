"""The options that commands share, each under one name and with one meaning."""

import inspect
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from console.errors import CommandError, ExitCode
from console.target import Target, connect
from longhaul.domain.durations import parse_duration_s
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.lease import Lease
from longhaul.domain.request import JOB_ID_RULE, parse_job_id

_WHERE = "Where"


Profile = Annotated[
    str | None,
    typer.Option("--profile", help="AWS profile; naming one means AWS, not the embedded one.", rich_help_panel=_WHERE),
]
Region = Annotated[
    str | None,
    typer.Option("--region", help="AWS region; naming one means AWS, not the embedded one.", rich_help_panel=_WHERE),
]
Stack = Annotated[
    str | None, typer.Option("--stack", help="Name of the stack.", show_default="Longhaul", rich_help_panel=_WHERE)
]
StageName = Annotated[str | None, typer.Option("--stage", help="Name of the stage.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print data as JSON, one object a line.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


MANY = 1_000_000
"""What options that say "at the most" take at the most: a list that nobody reads to its end."""


def on_target(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command its `target`, and the options that say which one it is: the same three for all, last in the help."""
    hints = get_type_hints(command, include_extras=True)
    where: dict[str, Any] = {"profile": Profile, "region": Region, "stack": Stack}

    @wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401 - whatever options the command has
        target = connect(**{name: given.pop(name) for name in where})
        command(target=target, **given)

    parameters = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[each.name])
        for each in inspect.signature(command).parameters.values()
        if each.name != "target"
    ]
    for name, hint in where.items():
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint))
    run.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
    return run


def _age(text: str) -> timedelta:
    try:
        return timedelta(seconds=parse_duration_s(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


OlderThan = Annotated[
    timedelta | None,
    typer.Option("--older-than", parser=_age, metavar="AGE", help="Only what is at least that old, such as 2h or 3d."),
]
NewerThan = Annotated[
    timedelta | None,
    typer.Option("--newer-than", parser=_age, metavar="AGE", help="Only what is at most that old, such as 30m."),
]


def job_id(text: str) -> str:
    """A job id as somebody typed it.

    Raises:
        CommandError: no job can have that id.
    """
    try:
        return parse_job_id(text)
    except InvalidRequestError:
        raise CommandError(f"{text!r} is no job id: {JOB_ID_RULE}", ExitCode.USAGE) from None


def find_job(target: Target, text: str, stage: str | None) -> Lease:
    """The row of the job that is meant.

    Raises:
        CommandError: nothing is known of it, or the same id is used in several stages.
    """
    wanted = job_id(text)
    found = target.jobs.find([each.name for each in target.stages(stage)], wanted)
    if not found:
        raise CommandError(unknown(wanted), ExitCode.NOT_FOUND)
    if len(found) > 1:
        names = ", ".join(sorted(row.stage for row in found))
        raise CommandError(f"job {wanted} is in several stages ({names}): name one with --stage", ExitCode.USAGE)
    return found[0]


def unknown(wanted: str) -> str:
    return f"nothing is known of job {wanted}: it may still be queued, its message may have been invalid (`longhaul dlq list`), or it was never sent"
