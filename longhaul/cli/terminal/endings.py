"""How every command ends that could not do its work: a sentence on stderr, and an exit code."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from botocore.exceptions import BotoCoreError, ClientError

from longhaul.cli.errors import CommandError, ExitStatus, ending, translated
from longhaul.cli.terminal.output import Output
from longhaul.config.settings import SettingsError
from longhaul.domain.errors import LonghaulError


@contextmanager
def errors_as_sentences() -> Iterator[None]:
    """End the command with a sentence for an error of its user; a defect keeps its traceback.

    Raises:
        typer.Exit: instead of such an error, and with 130 for Ctrl-C.
    """
    try:
        yield
    except typer.Exit:
        raise
    except (KeyboardInterrupt, typer.Abort):
        raise typer.Exit(ExitStatus.INTERRUPTED) from None
    except (BotoCoreError, ClientError) as error:
        # Before OSError: some of these are OSErrors too.
        _end(translated(error))
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader of our output has closed the pipe
            raise
        place = f"{error.filename}: " if error.filename else ""
        _end(CommandError(f"{place}{error.strerror or error}"))
    except CommandError as error:
        _end(error)
    except SettingsError as error:
        _end(CommandError(str(error), ExitStatus.USAGE))
    except (LonghaulError, RuntimeError) as error:
        # RuntimeError: of the embedded AWS, such as a failed synth or a port that is taken.
        _end(ending(error))


def _end(error: CommandError) -> NoReturn:
    Output().problem(str(error))
    raise typer.Exit(error.status) from None
