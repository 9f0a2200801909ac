"""How every command ends that could not do its work: a sentence on stderr, and an exit code."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from longhaul.cli.errors import ExitStatus


@contextmanager
def errors_as_sentences() -> Iterator[None]:
    """End the command with a sentence for an error of its user; a defect keeps its traceback.

    Raises:
        typer.Exit: instead of such an error, and with 130 for Ctrl-C.
    """
    try:
        yield
    except (typer.Exit, typer.TyperException):  # the second: wrong usage, which Typer shows
        raise
    except (KeyboardInterrupt, typer.Abort):
        raise typer.Exit(ExitStatus.INTERRUPTED) from None
    except Exception as error:
        # Botocore's errors and the models they are told from: only a failed command waits for them.
        from longhaul.cli.sentences import said  # noqa: PLC0415
        from longhaul.cli.terminal.output import Output  # noqa: PLC0415

        ended = said(error)
        if ended is None:
            raise
        Output().note(f"longhaul: {ended}", style="red")
        raise typer.Exit(ended.status) from None
