"""The `longhaul` command. Data goes to stdout, progress and errors to stderr; exit code 0 = done, 1 = it failed, 2 = used wrongly."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from console.new_job import new_job
from console.up import serve
from local.cloud import DEFAULT_WORK_DIR
from local.http_services import LOOPBACK
from local.synth import SynthError

DEFAULT_PORT = 4566
"""Where other emulators of AWS listen, and their clients look."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="Run PySpark jobs of any length from a queue.",
)

WorkDir = Annotated[Path, typer.Option(help="Where logs and the synthesized stack go.", show_default=".longhaul")]


@app.callback()
def longhaul() -> None:
    """Keeps each command a subcommand, however many there are."""


@app.command()
def up(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 picks a free one.")] = DEFAULT_PORT,
    host: Annotated[str, typer.Option(help="Address; Docker's bridge (172.17.0.1) lets containers in.")] = LOOPBACK,
    work_dir: WorkDir = DEFAULT_WORK_DIR,
) -> None:
    """Start the embedded AWS with the stack deployed, in the foreground, until Ctrl-C.

    Prints one JSON line on stdout when it is ready: endpoint, region and the stack's outputs. Any AWS client reaches it through AWS_ENDPOINT_URL.
    Writes sam-env.json to the work dir, with which `sam local invoke` reaches it too.
    """
    serve(Console(stderr=True), host=host, port=port, work_dir=work_dir)


@app.command()
def demo(work_dir: WorkDir = DEFAULT_WORK_DIR) -> None:
    """Run real Spark jobs through the whole system on this machine, with a crash on the way, and check the results."""
    # Here, because it is Spark's and the data's: `longhaul up` starts without them.
    from local.demo.run import run  # noqa: PLC0415

    raise typer.Exit(run(Console(), work_dir))


app.command()(new_job)


def main() -> None:
    """Entry point: an error that a user can cause ends in a sentence, not in a traceback."""
    try:
        app()
    except (SynthError, OSError, RuntimeError) as error:
        Console(stderr=True).print(f"longhaul: {error}", style="red", markup=False, soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
