"""`longhaul test`."""

from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import runs


@runs
def run_tests(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="For pytest, such as -k NAME.", metavar="PYTEST-ARGS"),
    ] = None,
) -> None:
    """Check the project, and run its tests with pytest.

    The tests import jobs by their names, and what requirements.txt installs. They have the fixtures
    `spark` (a session like a task's), `make_job` (a job over local files, in a stage of the
    project), `written` and `emitted` (what it wrote, and the requests that it emitted).

    Example: longhaul test -k carriers
    """
