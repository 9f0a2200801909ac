"""`longhaul verify`."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli.terminal.declaring import on_target
from longhaul.cli.terminal.options import AsJson, StageOption, age


@on_target
def verify(
    *,
    stage: StageOption = None,
    soak: Annotated[
        timedelta | None,
        typer.Option(
            "--soak",
            parser=age,
            metavar="DURATION",
            help="Then send jobs for that long, such as 30m: does the queue stay as fast?",
        ),
    ] = None,
    file: Annotated[Path, typer.Option("--output", "-o", help="Where to write the page.")] = Path(
        "longhaul-verify.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Try a deployed stack with small jobs: do they end as they must, and how soon?

    One job succeeds, one fails once, one cannot succeed, one is sent twice, one is cancelled, one
    loses its task and one its execution, one fans out into two that a third joins, the output of
    one is a table, and one runs on EMR Serverless if the stack has it; a further message is no
    request. For each it says what was expected, what
    happened, and how long each step took. Dead letters and outputs are deleted afterwards; alarms
    on dead letters may ring.

    The exit code is 1 if a case failed. It takes some ten minutes on AWS, and a few cents.

    Example: longhaul verify --profile production

    Example: longhaul verify --soak 30m -o after-deployment.html
    """
