"""`longhaul up`: the embedded AWS in the foreground."""

from pathlib import Path
from typing import Annotated

import typer

from console.output import Output
from local.http_services import LOOPBACK
from local.running import DEFAULT_WORK_DIR

DEFAULT_PORT = 4566
"""Where other emulators of AWS listen, and their clients look."""

WorkDir = Annotated[Path, typer.Option(help="Where logs and the synthesized stack go.", show_default=".longhaul")]


def up(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 picks a free one.")] = DEFAULT_PORT,
    host: Annotated[str, typer.Option(help="Address; Docker's bridge (172.17.0.1) lets containers in.")] = LOOPBACK,
    work_dir: WorkDir = DEFAULT_WORK_DIR,
) -> None:
    """Start the embedded AWS with the stack deployed, in the foreground, until Ctrl-C.

    Prints one JSON line on stdout when it is ready: endpoint, region and the stack's outputs. The other commands find it by themselves while it runs (another work
    dir than the usual one by AWS_ENDPOINT_URL only); any AWS client reaches it through AWS_ENDPOINT_URL. Writes sam-env.json to the work dir, with which
    `sam local invoke` reaches it too.

    Example: longhaul up --port 0
    """
    # Here, because it is moto: the other commands start without it.
    from console.up import serve  # noqa: PLC0415 - see above

    serve(Output().err, host=host, port=port, work_dir=work_dir)
