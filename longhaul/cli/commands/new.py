"""`longhaul new`: adds a job to a project."""

import re
from keyword import iskeyword
from typing import Annotated, Final

import typer

from longhaul.cli.commands.init import template
from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.cli.project import NO_PROJECT, chosen

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)


def new(
    name: Annotated[str, typer.Argument(help="The job's name in messages.", metavar="NAME")],
    *,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain",
            help="One in plain Python, for which no Spark is started (docs/jobs.md#without-spark).",
        ),
    ] = False,
) -> None:
    """Write a new job into the project, with a test that passes.

    It counts rows, as the jobs of a new project do: change it. Nothing is overwritten.

    Example: longhaul new busy_days
    """
    from longhaul.config.job_files import name_problems

    project = chosen()
    if project is None:
        raise CommandError(NO_PROJECT, ExitStatus.USAGE)
    if iskeyword(name) or not _NAME.fullmatch(name):
        raise CommandError(
            f"{name!r} is no name for a job: it becomes a module, so a-z, 0-9 and _, "
            "beginning with a letter, and no word of Python's own",
            ExitStatus.USAGE,
        )
    if problem := next(name_problems(project, project.jobs / f"{name}.py"), None):
        raise CommandError(problem, ExitStatus.USAGE)
    of = "count_rows" if plain else "count_rows_spark"
    written = {
        project.jobs / f"{name}.py": f"{of}.py.txt",
        project.tests / f"test_{name}.py": f"test_{of}.py.txt",
    }
    for file in written:
        if file.exists():
            raise CommandError(f"{file} exists already: choose another name, or delete it")
    for file, text in written.items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(template(text).replace(of, name), "utf-8")
        typer.echo(file)
