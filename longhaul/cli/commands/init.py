"""`longhaul init`: makes a project, a folder of a team's own."""

import re
from pathlib import Path
from shlex import quote
from string import Template
from typing import Annotated, Final

import typer

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.config.sources import version

_FILES: Final = Path(__file__).resolve().parent.parent / "new_project"

# Where each file of `new_project` goes.
_PLACES: Final = {
    "longhaul.toml": "longhaul.toml",
    "README.md.txt": "README.md",
    "requirements.txt": "requirements.txt",
    "gitignore": ".gitignore",
    "tests.yml": ".github/workflows/tests.yml",
    "count_rows.py.txt": "jobs/count_rows.py",
    "count_rows_spark.py.txt": "jobs/count_rows_spark.py",
    "test_count_rows.py.txt": "tests/test_count_rows.py",
    "test_count_rows_spark.py.txt": "tests/test_count_rows_spark.py",
}


def init(
    folder: Annotated[
        Path, typer.Argument(help="A new or empty folder.", metavar="DIR", show_default=False)
    ],
) -> None:
    """Make a project: settings, two jobs with their tests, and what runs the tests in CI.

    One of the jobs is plain Python, the other one does the same with Spark. The folder must be new
    or empty; otherwise nothing is changed (docs/first-job.md).

    Example: longhaul init flights
    """
    from rich.console import Console

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandError(
            f"{folder} is {'not empty' if folder.is_dir() else 'a file'}: "
            "name a new or empty folder; nothing was changed",
            ExitStatus.USAGE,
        )
    for place, text in files_of(folder.resolve().name).items():
        file = folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        typer.echo(file)
    say = Console(stderr=True, soft_wrap=True, highlight=False).print
    say(f"next: cd {quote(str(folder))}, then `longhaul up`, and read README.md", markup=False)


def files_of(name: str) -> dict[str, str]:
    """Path → text of a new project in a folder of that name."""
    values = {"name": name, "stack": stack_name(name), "version": version()}
    return {place: _Text(template(file)).substitute(values) for file, place in _PLACES.items()}


def template(file: str) -> str:
    """The text of a file of `new_project`."""
    return (_FILES / file).read_text("utf-8")


class _Text(Template):
    delimiter = "%"  # `$` is the CI's


def stack_name(folder: str) -> str:
    """A stack's name from a folder's: `daily-flights` becomes `DailyFlights`."""
    words = re.findall(r"[A-Za-z0-9]+", folder)
    name = "".join(word[:1].upper() + word[1:] for word in words)[:33]
    # Without the word `Longhaul`, which names the stack of a checkout.
    return name if re.match(r"[A-Za-z]", name) else f"Project{name}"
